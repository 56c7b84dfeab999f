"""Values of sequences: each is allocated once, to one node, in spite of crashes and changes."""

import pytest

from exuvia.base.errors import Refused, SchemaChanged
from exuvia.catalog import meta
from exuvia.catalog.autoid import Sequences, base_of, seek
from exuvia.catalog.model import DatabaseInfo, SequenceInfo, TableInfo, evolve, name
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore

DATABASE, SEQUENCE = 1, 2


def put(store, **options):
    """A sequence with these options, published."""
    info = SequenceInfo(**options)
    info = evolve(info, exuvia_base=base_of(info.sequence_start, info.sequence_increment))
    txn = store.begin()
    if meta.get_database(txn, DATABASE) is None:
        meta.put_database(txn, DatabaseInfo(id=DATABASE, db_name=name("d")))
    table = TableInfo(id=SEQUENCE, name=name("s"), exuvia_db=DATABASE, sequence=info)
    meta.put_table(txn, table)
    meta.publish(txn, type=34, schema_id=DATABASE, table_id=SEQUENCE, bumps={SEQUENCE: meta.STEP})
    txn.commit()
    return info


def take(sequences, count):
    return [sequences.next(SEQUENCE) for _ in range(count)]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, [1, 2, 3]),
        ({"sequence_increment": 3, "sequence_cache_value": 2}, [1, 4, 7, 10, 13]),
        ({"sequence_start": 5, "sequence_cache": False}, [5, 6, 7]),
        (
            {
                "sequence_increment": -2,
                "sequence_start": -1,
                "sequence_min_value": -100,
                "sequence_max_value": -1,
                "sequence_cache_value": 2,
            },
            [-1, -3, -5, -7],
        ),
        (
            {
                "sequence_start": 4,
                "sequence_max_value": 5,
                "sequence_cycle": True,
                "sequence_cache_value": 3,
            },
            [4, 5, 1, 2, 3, 4, 5, 1],
        ),
        (
            {
                "sequence_increment": -3,
                "sequence_start": 2,
                "sequence_min_value": -2,
                "sequence_max_value": 5,
                "sequence_cycle": True,
            },
            [2, -1, 5, 2, -1, 5],
        ),
    ],
)
def test_values_follow_the_options(options, values):
    store = MemoryStore()
    put(store, **options)
    assert take(Sequences(store), len(values)) == values


def test_no_value_is_allocated_twice_despite_a_crash():
    store = MemoryStore()
    put(store, sequence_cache_value=4)
    one, two = Sequences(store), Sequences(store)
    allocated = take(one, 3) + take(two, 6) + take(one, 3)
    allocated += take(Sequences(store), 5)  # after a crash of both
    assert len(set(allocated)) == len(allocated)


def test_a_sequence_runs_out():
    store = MemoryStore()
    put(store, sequence_max_value=2)
    sequences = Sequences(store)
    assert take(sequences, 2) == [1, 2]
    with pytest.raises(Refused, match="has run out"):
        sequences.next(SEQUENCE)


def test_a_change_of_the_options_ends_every_nodes_block():
    """As in TiDB, a node loses its block, so that no value of the old step is allocated."""
    store = MemoryStore()
    info = put(store)
    one, two = Sequences(store), Sequences(store)
    assert take(one, 3) == [1, 2, 3]
    txn = store.begin()
    table = meta.get_table(txn, SEQUENCE)
    meta.put_table(txn, evolve(table, sequence=evolve(info, sequence_increment=2)))
    meta.publish(txn, type=35, schema_id=DATABASE, table_id=SEQUENCE, bumps={SEQUENCE: meta.STEP})
    txn.commit()
    assert take(one, 2) == [1001, 1003]
    assert take(two, 1) == [3001]


def test_restart_is_a_new_generation():
    store = MemoryStore()
    info = put(store)
    sequences = Sequences(store)
    take(sequences, 5)
    txn = store.begin()
    table = meta.get_table(txn, SEQUENCE)
    again = evolve(info, exuvia_generation=1, exuvia_base=8)
    meta.put_table(txn, evolve(table, sequence=again))
    meta.publish(txn, type=35, schema_id=DATABASE, table_id=SEQUENCE, bumps={SEQUENCE: meta.STEP})
    txn.commit()
    assert take(sequences, 2) == [9, 10]


def test_set_moves_forward_only():
    store = MemoryStore()
    put(store, sequence_cache_value=10)
    sequences = Sequences(store)
    assert take(sequences, 1) == [1]
    assert [sequences.set(SEQUENCE, value) for value in (1, 5, 100, 50)] == [None, 5, 100, None]
    assert take(sequences, 2) == [101, 102]


def test_a_block_is_refused_once_the_sequence_has_changed():
    """Reserving a block validates the revision for which it was computed."""
    store = MemoryStore()
    info = put(store)
    txn = store.begin()
    txn.require_at_most(keys.revision(SEQUENCE), meta.revision(txn, SEQUENCE))
    txn.put(keys.meta("seq", SEQUENCE), b"[0,0,1000]")
    change = store.begin()
    table = meta.get_table(change, SEQUENCE)
    meta.put_table(change, evolve(table, sequence=evolve(info, sequence_increment=7)))
    meta.publish(
        change, type=35, schema_id=DATABASE, table_id=SEQUENCE, bumps={SEQUENCE: meta.STEP}
    )
    change.commit()
    with pytest.raises(SchemaChanged):
        txn.commit()


def test_seek_agrees_with_counting():
    """Compared with the definition, for every small case."""
    for increment in (1, 2, 3, -1, -2, -3):
        up = increment > 0
        for offset in range(-4, 5):
            for base in range(-6, 7):
                end = 6 if up else -6
                info = SequenceInfo(sequence_increment=increment)
                series = [offset + n * increment for n in range(20)]
                beyond = [v for v in series if (base < v <= end if up else end <= v < base)]
                assert seek(base, info, offset, end) == (beyond[0] if beyond else None)

"""A backup of rows taken at every step of every action, beside clients, and a new store of it.

The new store has one version: what is public at the source at that moment, and the same rows in it;
its rows have the backup's checksums and its indexes their rows (`restore_here` compares them).
"""

from contextlib import closing

import pytest

from exuvia.backup import folder
from exuvia.backup.make import make_at
from exuvia.backup.restore import restore_here
from exuvia.backup.rows import RowsCrew
from exuvia.catalog import meta, reader
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState
from exuvia.ddl.actions.options import SCHEMA_LOCK
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from support.script_actions import SEVERAL
from support.scripts import ASKED, Play, Script, Traffic
from support.tables import EVALUATOR

PUBLIC = SchemaState.PUBLIC
SHORT = {
    "add index, unique",
    "add column, not null",
    "drop column",
    "modify column, rows",
    "alter table reorganize partition",
    "alter table partition by",
    "add foreign key",
    "drop foreign key",
    "exuvia change log",
}
LABELS = [*ASKED, *SEVERAL]


def seen(store):
    """What clients read of each table of the database test: its form and its rows."""
    found = {}
    schemas = Schemas(store, evaluator=EVALUATOR)
    with store.read() as txn:
        for database in schemas.databases(txn):
            if database.db_name.L == "mysql":
                continue
            found[database.db_name.L] = database
            for info in schemas.tables(txn, database.db_name.L):
                table = schemas.table_by_id(txn, info.id)
                found[database.db_name.L, info.name.L] = form(table), rows(txn, table)
    return found


def form(table):
    """Names and types of columns, names of indexes, CHECKs and keys, partitions: public ones."""
    info = table.info
    cut = info.partition if info.partition is not None and info.partition.type else None
    parts = cut.definitions if cut is not None else ()
    unused = cut.unused if cut is not None else ()
    return (
        [(c.name.O, c.type.Tp, c.type.not_null) for c in table.columns],
        {i.idx_name.O for i in info.indexes if i.state == PUBLIC},
        {c.constraint_name.O for c in info.checks if c.state == PUBLIC},
        {k.fk_name.O for k in info.foreign_keys if k.state == PUBLIC},
        [p.name.O for p in parts if p.id not in unused],
        info.view,
        info.sequence,
        info.exuvia_change_log == PUBLIC,
    )


def rows(txn, table):
    if not table.info.is_stored:
        return []
    positions = [table.position(c.name.L) for c in table.columns]
    unused = table.info.partition.unused if table.info.partition is not None else ()
    return sorted(
        (handle, [row[n] for n in positions])
        for part in table.parts
        if part.physical_id not in unused
        for handle, row in reader.scan(txn, part)
    )


class BackedUp(Traffic):
    """Takes a backup whenever the job has taken a step."""

    place = None  # where
    made = 0

    def step(self):
        super().step()
        if self.taken < self.made:
            return
        self.made = self.taken + 1
        self.look()

    def look(self):
        wanted = seen(self._store)
        place = str(self.place / f"{self.made}")
        with closing(RowsCrew("", "", lambda line: None)) as crew:
            folder.begin(place)
            make_at(self._store, {"url": ""}, place, "", crew)
            new = MemoryStore()
            restore_here(new, "", place, folder.read(place), True, crew)
        assert seen(new) == wanted
        settled(new)


def settled(store):
    """Nothing of a change that was under way is left in the new store."""
    links, led = set(), set()
    with store.read() as txn:
        tables = [t for d in meta.list_databases(txn) for t in meta.list_tables(txn, d.id)]
        for info in tables:
            elements = [*info.cols, *info.indexes, *info.checks, *info.foreign_keys]
            assert {each.state for each in elements} <= {PUBLIC}
            assert not any(c.exuvia_changing_type or c.change_state_info for c in info.cols)
            assert info.Lock in (None, SCHEMA_LOCK) and info.exuvia_exchange is None
            links |= {k.exuvia_link for k in info.foreign_keys if not k.exuvia_orphan}
            led |= {each.link for each in info.exuvia_referred}
            if info.exuvia_change_log == PUBLIC:
                assert log_begins_behind_its_rows(store, info)
        assert links == led == {link for link, _ in meta.parents(txn)}


def log_begins_behind_its_rows(store, info):
    with closing(store.snapshot()) as view:
        (begun,) = view.stamps([view.get(keys.meta("changelog", info.id))])
        loaded = [raw for _, raw in view.scan(keys.span_of(keys.row_prefix(info.id)))]
        return bool(loaded) and all(begun > view.stamps(loaded))


class Observed(Play):
    def traffic_of(self, store, name, chance):
        return BackedUp(store, name, chance)


@pytest.mark.parametrize(
    "label", [pytest.param(n, marks=() if n in SHORT else pytest.mark.long) for n in LABELS]
)
def test_a_backup_at_every_step_is_one_version(label, tmp_path):
    play = Observed(Script(label, "run", 0), 0)
    play.traffic.place = tmp_path
    job = play.run()
    play.traffic.made += 1
    play.traffic.look()
    assert job.in_history
    assert play.traffic.made > 2

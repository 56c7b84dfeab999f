"""CREATE SEQUENCE, ALTER SEQUENCE, DROP SEQUENCE: options checked as TiDB checks them (4136).

           INCREMENT > 0                     INCREMENT < 0
MINVALUE   1                                 -(2^63 - 1)
MAXVALUE   2^63 - 2                          -1
START      1, or MINVALUE if that is more    -1, or MAXVALUE if that is less
CACHE      1000
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrNoSuchTable,
    ErrSequenceInvalidData,
    ErrTableExists,
    ErrUnknownSequence,
    ErrWrongObject,
    ErrWrongTableName,
)
from exuvia.catalog.autoid import base_of
from exuvia.catalog.model import DatabaseInfo, SchemaState, SequenceInfo, TableInfo, evolve, name
from exuvia.ddl import requests
from exuvia.sql.nodes import AlterSequence, CreateSequence, DropTable
from exuvia.sql.schema.change import Change, Existence, JobRequest, SchemaReader, of_job, unneeded
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.view import drop_objects

_LAST, _FIRST = (1 << 63) - 1, -(1 << 63)
Options = Sequence[tuple[str, int | None]]


def create_sequence(reader: SchemaReader, node: CreateSequence, text: str) -> Change:
    """CREATE SEQUENCE [IF NOT EXISTS]. Raises 1050, 4136."""
    check_name(node.sequence.name, ErrWrongTableName)
    database = reader.database_named(node.sequence.db)
    place = f"{database.db_name.O}.{node.sequence.name}"
    if _exists(reader, database, node.sequence.name):
        return unneeded(ErrTableExists(place), node.if_not_exists)
    sequence = _filled(_with_options(SequenceInfo(), node.options), node.options)
    _check(sequence, place)
    first = base_of(sequence.sequence_start, sequence.sequence_increment)
    comment = node.comment or ""
    sequence = evolve(sequence, exuvia_base=first, sequence_comment=comment)
    info = TableInfo(
        id=0,
        name=name(node.sequence.name),
        charset=database.charset,
        collate=database.collate,
        state=SchemaState.ABSENT,
        comment=comment,
        sequence=sequence,
        exuvia_db=database.id,
    )
    job = requests.create_sequence(database, info, query=text)
    codes = {ErrTableExists.code} if node.if_not_exists else set()
    return Change((JobRequest(job),), existence=Existence(frozenset(codes)))


def _exists(reader: SchemaReader, database: DatabaseInfo, sequence_name: str) -> bool:
    try:
        reader.table(database, sequence_name)
    except Refused as error:
        if error.code == ErrNoSuchTable.code:
            return False
        raise
    return True


def alter_sequence(reader: SchemaReader, node: AlterSequence, text: str) -> Change:
    """ALTER SEQUENCE [IF EXISTS]. Raises 4139, 1347, 4136."""
    place = reader.full_name(node.sequence)
    try:
        database = reader.database_named(node.sequence.db)
        info = reader.table(database, node.sequence.name)
    except Refused as error:
        if error.code not in (ErrBadDB.code, ErrNoSuchTable.code):
            raise
        return unneeded(ErrUnknownSequence(place), node.if_exists)
    if info.sequence is None:
        raise ErrWrongObject(*place.split(".", 1), "SEQUENCE")
    sequence = _with_options(info.sequence, node.options)
    _check(sequence, place)
    sequence = _restarted(sequence, info.sequence, node.options)
    if node.comment is not None:
        sequence = evolve(sequence, sequence_comment=node.comment)
    return of_job(requests.alter_sequence(database, info, sequence, query=text))


def drop_sequence(reader: SchemaReader, node: DropTable, text: str) -> Change:
    """DROP SEQUENCE [IF EXISTS] a, b. Raises 4139, 1347."""
    return drop_objects(reader, node, text, "SEQUENCE", ErrUnknownSequence)


def _with_options(info: SequenceInfo, options: Options) -> SequenceInfo:
    up = info.sequence_increment > 0
    for option, value in options:
        if option == "increment" and value is not None:
            up = value >= 0
    changed: dict[str, object] = {}
    for option, value in options:
        if option in _VALUES:
            changed[_VALUES[option]] = value
        elif option == "nominvalue":
            changed["sequence_min_value"] = 1 if up else _FIRST + 1
        elif option == "nomaxvalue":
            changed["sequence_max_value"] = _LAST - 1 if up else -1
        elif option in ("cycle", "nocycle"):
            changed["sequence_cycle"] = option == "cycle"
        if option in ("cache", "nocache"):
            changed["sequence_cache"] = option == "cache"
    return evolve(info, **changed)


_VALUES = {
    "increment": "sequence_increment",
    "start": "sequence_start",
    "minvalue": "sequence_min_value",
    "maxvalue": "sequence_max_value",
    "cache": "sequence_cache_value",
}


def _filled(info: SequenceInfo, options: Options) -> SequenceInfo:
    """The sequence of a CREATE with defaults for omitted options, which depend on the direction."""
    explicit = {option.removeprefix("no") for option, _ in options}
    if info.sequence_increment < 0:
        if "minvalue" not in explicit:
            info = evolve(info, sequence_min_value=_FIRST + 1)
        if "maxvalue" not in explicit:
            info = evolve(info, sequence_max_value=-1)
        start = min(info.sequence_max_value, -1)
    else:
        start = max(info.sequence_min_value, 1)
    return info if "start" in explicit else evolve(info, sequence_start=start)


def _check(info: SequenceInfo, place: str) -> None:
    """Raises 4136."""
    size = abs(info.sequence_increment)
    sound = (
        size != 0
        and info.sequence_cache_value > 0
        and info.sequence_min_value <= info.sequence_start <= info.sequence_max_value
        and info.sequence_min_value < info.sequence_max_value
        and info.sequence_max_value < _LAST
        and info.sequence_min_value > _FIRST
        and info.sequence_cache_value < (_LAST - size) // size
    )
    if not sound:
        raise ErrSequenceInvalidData(place)


def _restarted(sequence: SequenceInfo, before: SequenceInfo, options: Options) -> SequenceInfo:
    for option, value in options:
        if option == "restart":
            first = sequence.sequence_start if value is None else value
            sequence = evolve(
                sequence,
                exuvia_generation=before.exuvia_generation + 1,
                exuvia_base=base_of(first, sequence.sequence_increment),
            )
    return sequence

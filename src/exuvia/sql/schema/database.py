"""CREATE DATABASE, ALTER DATABASE, DROP DATABASE."""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrDBaccessDenied,
    ErrDBCreateExists,
    ErrDBDropExists,
    ErrUnknown,
    ErrWrongDBName,
)
from exuvia.catalog import meta
from exuvia.ddl import requests
from exuvia.sql.charsets import default_collations, resolve
from exuvia.sql.nodes import AlterDatabase, CreateDatabase, DropDatabase
from exuvia.sql.schema.change import (
    COMPUTED,
    Absent,
    Change,
    Existence,
    JobRequest,
    SchemaReader,
    refuse_new_charsets,
    refuse_new_collations,
    unneeded,
)
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import check_drop_database, keys_are_checked
from exuvia.sql.schema.placement import policy_named
from exuvia.sql.schema.table_options import require_no_replicas


def create_database(reader: SchemaReader, node: CreateDatabase, text: str) -> Change:
    """CREATE DATABASE [IF NOT EXISTS]. Raises 1007, 1102, 1115, 1273, 1253."""
    name = check_name(node.name, ErrWrongDBName)
    server = reader.variable("character_set_server"), reader.variable("collation_server")
    charset, collate = resolve(
        node.charset, node.collate, resolve(*server, server), default_collations(reader.variable)
    )
    refuse_new_charsets(reader, (charset,))
    refuse_new_collations(reader, (collate,))
    if meta.find_database(reader.txn, name) is not None:
        return unneeded(ErrDBCreateExists(name), node.if_not_exists)
    policy = policy_named(reader.txn, node.placement or "")
    job = requests.create_database(name, charset, collate, policy, query=text)
    codes = {ErrDBCreateExists.code} if node.if_not_exists else set()
    return Change((JobRequest(job, name),), existence=Existence(frozenset(codes)), affected=1)


def alter_database(reader: SchemaReader, node: AlterDatabase, text: str) -> Change:
    """ALTER DATABASE [d]: charset, collation and placement policy of future tables. Raises 1046,
    1049, 1102, 8200, 8239, 1105."""
    if node.name is not None:
        check_name(node.name, ErrWrongDBName)
    database = reader.database_named(node.name)
    if node.replicas is not None:
        require_no_replicas(node.replicas)
    old = database.charset, database.collate
    new = resolve(node.charset, node.collate, old, default_collations(reader.variable))
    refuse_new_charsets(reader, new[:1])
    refuse_new_collations(reader, new[1:])
    jobs = []
    if new != old:
        jobs.append(requests.alter_database(database, *new, query=text))
    if node.placement is not None:
        policy = policy_named(reader.txn, node.placement)
        if policy != database.policy_ref_info:
            jobs.append(requests.place_database(database, policy, query=text))
    return Change(tuple(map(JobRequest, jobs)), affected=1)


def drop_database(reader: SchemaReader, node: DropDatabase, text: str) -> Change:
    """DROP DATABASE [IF EXISTS]. Raises 1008, 1044 for a computed database, 1105 for mysql."""
    if node.name.lower() in COMPUTED:
        raise ErrDBaccessDenied(reader.user, reader.host, node.name)
    if node.name.lower() == "mysql":
        raise ErrUnknown("Drop 'mysql' database is forbidden")
    codes = frozenset((ErrDBDropExists.code, ErrBadDB.code))
    existence = Existence(codes, node.if_exists, ErrDBDropExists)
    try:
        database = reader.schemas.database(reader.txn, node.name)
        check_drop_database(reader, node.name)
    except Refused as error:
        if error.code not in codes:
            raise
        return Change((Absent(node.name),), existence=existence)
    job = requests.drop_database(database, checks=keys_are_checked(reader), query=text)
    leaves = reader.database.lower() == node.name.lower()
    return Change((JobRequest(job, node.name),), existence=existence, leaves_database=leaves)

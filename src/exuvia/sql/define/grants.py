"""GRANT and REVOKE: rows of mysql.user (*.*), mysql.db (db.*) and mysql.tables_priv (db.t).

Who grants must hold what is granted, and GRANT OPTION, in the same place: 1045 everywhere, 1044 in
a database, 1142 on a table.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.kv.transaction import Transaction
from exuvia.sql.define.accounts import (
    Name,
    change,
    named,
    put_account,
    put_database,
    put_table,
)
from exuvia.sql.nodes.accounts import Grant, Place, Revoke
from exuvia.sql.privileges.accounts import Account, Book, OnDatabase, OnTable
from exuvia.sql.privileges.names import DATABASE, GLOBAL, GRANT, TABLE, USAGE
from exuvia.sql.result import Result
from exuvia.sql.session.running import Running

_LEVELS = {"global": GLOBAL, "database": DATABASE, "table": TABLE}


def grant(session: Running, node: Grant, text: str) -> Result:
    """GRANT. Raises 1044, 1045, 1142, 1144, 1146, 1221, 1410."""
    place = _resolved(session, node.place)
    given = _wanted(node.privileges, place)
    if node.with_grant:
        given |= {GRANT}
    _check_grantor(session, place, given)
    if _level(place) == "table" and "CREATE" not in given:
        _check_table(session, place)

    def work(txn: Transaction, book: Book) -> None:
        for said in node.users:
            account = book.account(*named(session, said.who))
            if account is None:
                raise refuse(1410)
            held = _held(book, account, place)
            _put(session, txn, account, place, (held or frozenset()) | given)

    change(session, work)
    return Result()


def revoke(session: Running, node: Revoke, text: str) -> Result:
    """REVOKE. Raises 1044, 1045, 1142, 1141, 1144, 1147, 1221, 1105 for an unknown account."""
    names = [named(session, who) for who in node.users]
    if node.place is None:
        return _revoke_everything(session, names)
    place = _resolved(session, node.place)
    taken = _wanted(node.privileges, place)
    _check_grantor(session, place, taken)

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _known(book, name)
            held = _held(book, account, place)
            if held is None:
                raise _no_such_grant(account, place)
            _put(session, txn, account, place, held - taken)

    change(session, work)
    return Result()


def _revoke_everything(session: Running, names: list[Name]) -> Result:
    _check_grantor(session, ("*", "*"), frozenset({"CREATE USER"}))

    def work(txn: Transaction, book: Book) -> None:
        for name in names:
            account = _known(book, name)
            put_account(txn, account._replace(privileges=frozenset()))
            for on in book.databases:
                if on[:2] == account[:2]:
                    put_database(txn, on._replace(privileges=frozenset()))
            for row in book.tables:
                if row[:2] == account[:2]:
                    put_table(txn, row._replace(privileges=frozenset()), "")

    change(session, work)
    return Result()


def _known(book: Book, name: Name) -> Account:
    found = book.account(*name)
    if found is None:
        raise refuse(1105, f"Unknown user: {name[0]}@{name[1]}")
    return found


# -- places ----------------------------------------------------------------------------------------


def _resolved(session: Running, place: Place) -> tuple[str, str]:
    """(database or *, table or *). Raises 1046."""
    database = session.database if place.database is None else place.database
    if not database:
        raise refuse(1046)
    return database, place.table


def _level(place: tuple[str, str]) -> str:
    if place == ("*", "*"):
        return "global"
    return "database" if place[1] == "*" else "table"


def _wanted(privileges: tuple[str, ...], place: tuple[str, str]) -> frozenset[str]:
    """The privileges meant. Raises 1144, 1221, 1064 for words that are none."""
    level = _level(place)
    allowed = _LEVELS[level]
    found: set[str] = set()
    for each in privileges:
        if each == "ALL":
            found |= set(allowed)
        elif each in allowed or each == GRANT:
            found.add(each)
        elif each in GLOBAL:
            if level == "database":
                raise refuse(1221, "DB GRANT", "GLOBAL PRIVILEGES")
            raise refuse(1144)
        elif each != USAGE:
            raise refuse(1064, f"near '{each}' at line 1")
    return frozenset(found)


def _check_table(session: Running, place: tuple[str, str]) -> None:
    """Raises 1146."""
    txn = session.services.store.begin()
    try:
        session.services.schemas.table(txn, *place)
    except Refused as error:
        raise refuse(1146, *place) if error.code == 1049 else error from None
    finally:
        txn.rollback()


def _check_grantor(session: Running, place: tuple[str, str], given: frozenset[str]) -> None:
    rights, level = session.rights, _level(place)
    if level == "global":
        if not rights.everywhere >= given | {GRANT}:
            raise refuse(1045, *session.account_name, "YES")
    elif level == "database":
        if not rights.on_database(place[0]) >= given | {GRANT}:
            raise refuse(1044, *session.account_name, place[0])
    elif not rights.on_table(*place) >= given | {GRANT}:
        raise refuse(1142, "GRANT", *session.account_name, place[1])


# -- what is held ----------------------------------------------------------------------------------


def _held(book: Book, account: Account, place: tuple[str, str]) -> frozenset[str] | None:
    """What the account was granted in exactly that place; None where there is no such grant."""
    level = _level(place)
    if level == "global":
        return account.privileges
    if level == "database":
        rows = [e for e in book.databases if e[:2] == account[:2] and _same(e.database, place[0])]
        return rows[0].privileges if rows else None
    found = [
        each
        for each in book.tables
        if each[:2] == account[:2]
        and _same(each.database, place[0])
        and _same(each.table, place[1])
    ]
    return found[0].privileges if found else None


def _same(left: str, right: str) -> bool:
    return left.lower() == right.lower()


def _put(
    session: Running,
    txn: Transaction,
    account: Account,
    place: tuple[str, str],
    privileges: frozenset[str],
) -> None:
    level, (database, table) = _level(place), (place[0].lower(), place[1].lower())
    if level == "global":
        put_account(txn, account._replace(privileges=privileges))
    elif level == "database":
        put_database(txn, OnDatabase(account.user, account.host, database, privileges))
    else:
        row = OnTable(account.user, account.host, database, table, privileges)
        put_table(txn, row, "@".join(session.account_name))


def _no_such_grant(account: Account, place: tuple[str, str]) -> Refused:
    if _level(place) == "table":
        return refuse(1147, account.user, account.host, place[1])
    return refuse(1141, account.user, account.host)

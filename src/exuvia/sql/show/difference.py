"""The difference between two definitions of a table, as ALTER TABLEs; pure.

    TableInfo, TableInfo -> Clauses -> Alters        one, unless clauses exclude each other

The texts of SHOW CREATE TABLE are compared piece by piece, so a table never differs from its own
text. Not compared, because a definition does not contain them:

    the next ids, a lock of the schema, a change log, CACHE, PRE_SPLIT_REGIONS, the order of indexes

A column of another name is another column, unless its line ends with `-- renamed from old`. An
index of another name with the same parts is renamed. For a changed index, the new one gets the name
first, so queries always have one. If a column of it is dropped, the old index is dropped first. A
change of the clustered key moves all rows and is an ALTER TABLE of its own. Columns of only the
former key are changed or dropped after it.

ddl/multi_schema_change.py defines which clauses exclude each other in one ALTER TABLE (8200,
"operate same column"). A clause that conflicts with an earlier one goes into the next ALTER TABLE.
So does a change of a column together with one of its index, because rewriting a column rebuilds all
its indexes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.types import FieldType, Flag
from exuvia.catalog.model import (
    ColumnInfo,
    ConstraintInfo,
    FkInfo,
    IndexInfo,
    Name,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    PolicyRef,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.sql.schema.alter_column import is_widened
from exuvia.sql.show.create import (
    column_text,
    handle_text,
    index_text,
    is_wrapped,
    partition_text,
    ttl_options,
)
from exuvia.sql.type_text import identifier, quoted, type_text
from exuvia.sql.write.foreign_keys import clause as key_text

_PRIMARY = "primary"
_NOTHING: frozenset[str] = frozenset()


class Alter(NamedTuple):
    """The clauses of one ALTER TABLE. `loses`: the data that rows lose, in words, or ""."""

    clauses: tuple[str, ...]
    loses: str = ""


class Clause(NamedTuple):
    """One change, and the names by which it conflicts with others.

    Names have a prefix: c:column, i:index, f:foreign key, k:check.

        uses      must exist and stay unchanged; may be added in the same statement
        needs     must exist before the statement and stay unchanged
        places    the neighbour in AFTER; may be modified in the same statement
        frees     may be modified in the same statement, but only dropped in a later one
        early     sorted before all clauses that are not early
        alone     the only clause of its statement
    """

    text: str
    adds: frozenset[str] = _NOTHING
    drops: frozenset[str] = _NOTHING
    modifies: frozenset[str] = _NOTHING
    uses: frozenset[str] = _NOTHING
    needs: frozenset[str] = _NOTHING
    places: frozenset[str] = _NOTHING
    frees: frozenset[str] = _NOTHING
    loses: str = ""
    early: bool = False
    alone: bool = False

    @property
    def changes(self) -> frozenset[str]:
        return self.adds | self.drops | self.modifies


def difference(
    current: TableInfo,
    target: TableInfo,
    home: str,
    renamed: Mapping[str, str],
) -> tuple[Alter, ...]:
    """The ALTER TABLEs that change `current` into `wanted`, in order.

    `home`: their database. `renamed`: a column's new name to its old one, in lower case. Foreign
    keys have their present names."""
    old, new = _plain(current), _plain(target)
    moves = {
        was: was_named
        for now, was in renamed.items()
        if (was_named := new.column(now)) is not None
        and new.column(was) is None
        and old.column(was) is not None
        and old.column(now) is None
    }
    names = {was: column.name for was, column in moves.items()}
    after = _with_names(old, names)
    between = _with_former_key(after, new)
    alters = list(_steps(old, after, between, home, names))
    if between is not new:
        alters += _steps(between, between, new, home, {})
    return tuple(alters)


def _steps(
    old: TableInfo, after: TableInfo, new: TableInfo, home: str, names: Mapping[str, Name]
) -> Iterator[Alter]:
    """`after`: the old table with its columns' new names."""
    # the texts of an ALTER inherit these
    inheriting = evolve(new, charset=old.charset, collate=old.collate)
    clauses = [
        *_check_drops(after, new),
        *_key_drops(after, new, home),
        *_columns(old, after, new, inheriting, names),
        *_indexes(after, new),
        *_key_adds(after, new, home),
        *_check_adds(after, new),
        *_options(old, new),
    ]
    clauses.sort(key=lambda clause: (clause.alone, not clause.early))
    first, last = _partitions(old, new)
    return _alters([*first, *clauses, *last])


def _with_former_key(after: TableInfo, new: TableInfo) -> TableInfo:
    """The new table, except that columns which leave the clustered key stay as they were."""
    had, wants = (_index_list(definition).get(_PRIMARY) for definition in (after, new))
    if had is None or not had.is_clustered:
        return new
    stay = _NOTHING if wants is None else wants.columns
    columns = list(new.cols)
    of_key = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)
    before: list[str] = []
    for old in after.public_columns:
        target = new.column(old.name.L)
        if _of("c", [old.name.L]) <= had.columns - stay:
            unchanged = evolve(old, type=evolve(old.type, Flag=old.type.Flag & ~of_key))
            if target is not None:
                columns[columns.index(target)] = evolve(unchanged, id=target.id)
            else:
                there = [column.name.L for column in columns]
                at = next((there.index(n) + 1 for n in reversed(before) if n in there), 0)
                columns.insert(at, evolve(unchanged, id=-old.id))
        before.append(old.name.L)
    if tuple(columns) == new.cols:
        return new
    return evolve(new, cols=tuple(columns))


def hints(text: str) -> dict[str, str]:
    """New name to old name, in lower case, of each line of a CREATE TABLE with such a comment."""
    matches = (_HINT.match(line) for line in text.splitlines())
    return {
        (match["new"] or match["new_word"]).lower(): (match["old"] or match["old_word"]).lower()
        for match in matches
        if match
    }


_HINT = re.compile(
    r"\s*(?:`(?P<new>[^`]+)`|(?P<new_word>[\w$]+))\s.*--\s+renamed from\s+"
    r"(?:`(?P<old>[^`]+)`|(?P<old_word>[\w$]+))\s*$",
    re.IGNORECASE,
)


# -- conflicts between clauses ---------------------------------------------------------------------


def _alters(clauses: Iterable[Clause]) -> Iterator[Alter]:
    stages: list[list[Clause]] = []
    placed: list[tuple[Clause, int]] = []
    for clause in clauses:
        after = [at + 1 for other, at in placed if _conflict(other, clause)]
        # New columns after the same column: the last one comes first
        after += [at for other, at in placed if clause.places and other.places == clause.places]
        at = len(stages) if clause.alone else max(after, default=0)
        while at < len(stages) and any(other.alone for other in stages[at]):
            at += 1
        if at == len(stages):
            stages.append([])
        stages[at].append(clause)
        placed.append((clause, at))
    for stage in stages:
        loses = "; ".join(part.loses for part in stage if part.loses)
        yield Alter(tuple(part.text for part in stage), loses)


def _conflict(one: Clause, other: Clause) -> bool:
    """Whether `other` has to be in a later statement than `one`."""
    if one.changes & other.changes or one.frees & other.drops:
        return True
    for a, b in ((one, other), (other, one)):
        used = a.uses & (b.drops | b.modifies) or a.needs & b.changes
        if used or a.places & (b.adds | b.drops):
            return True
    return False


# -- normal form -----------------------------------------------------------------------------------


def _plain(table: TableInfo) -> TableInfo:
    """The public parts of a table, without everything that a definition cannot contain."""
    public = (column for column in table.cols if column.state == SchemaState.PUBLIC)
    columns = tuple(
        _with_explicit_default(_with_bare_expression(column))
        if not column.hidden
        else _with_bare_expression(column)
        for column in public
    )
    return evolve(
        table,
        cols=columns,
        index_info=tuple(index for index in table.indexes if index.state == SchemaState.PUBLIC),
        fk_info=tuple(key for key in table.foreign_keys if key.state == SchemaState.PUBLIC),
        constraint_info=tuple(
            evolve(check, expr_string=_bare(check.expr_string))
            for check in table.checks
            if check.state == SchemaState.PUBLIC
        ),
    )


def _with_explicit_default(column: ColumnInfo) -> ColumnInfo:
    """A nullable column without a default gets DEFAULT NULL, as its printed text has it."""
    lost = int(Flag.NO_DEFAULT_VALUE)
    if column.not_null or not column.type.Flag & lost:
        return column
    return evolve(column, type=evolve(column.type, Flag=column.type.Flag & ~lost))


def _with_bare_expression(column: ColumnInfo) -> ColumnInfo:
    return evolve(column, generated_expr_string=_bare(column.generated_expr_string))


def _bare(text: str) -> str:
    """An expression without its outer parentheses, which printing adds."""
    while is_wrapped(text):
        text = text[1:-1]
    return text


def _with_names(table: TableInfo, names: Mapping[str, Name]) -> TableInfo:
    """The table after columns were renamed (lower-case old name to new name)."""
    if not names:
        return table
    return evolve(
        table,
        cols=tuple(
            evolve(column, name=names.get(column.name.L, column.name)) for column in table.cols
        ),
        index_info=tuple(
            evolve(
                index,
                idx_cols=tuple(
                    evolve(part, name=names.get(part.name.L, part.name)) for part in index.idx_cols
                ),
            )
            for index in table.indexes
        ),
        fk_info=tuple(
            evolve(key, cols=tuple(names.get(column.L, column) for column in key.cols))
            for key in table.foreign_keys
        ),
    )


def _of(kind: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{kind}:{text.lower()}" for text in names)


# -- columns ---------------------------------------------------------------------------------------


def _columns(
    old: TableInfo,
    after: TableInfo,
    new: TableInfo,
    inheriting: TableInfo,
    names: Mapping[str, Name],
) -> Iterator[Clause]:
    """`after`: the old table with new column names. `inheriting`: the new table, with the old one's
    character set as ALTER inherits it."""
    has = {column.name.L: column for column in after.public_columns}
    wants = {column.name.L: column for column in new.public_columns}
    was = {column.L: text for text, column in names.items()}
    dropped = [column for text, column in has.items() if text not in wants]
    # Generated columns are dropped before the columns that they depend on, which precede them
    dropped.reverse()
    for former in sorted(dropped, key=lambda column: not column.is_generated):
        yield Clause(
            f"DROP COLUMN {identifier(former.name.O)}",
            drops=_of("c", [former.name.L]),
            needs=_of("c", former.dependences or ()),
            loses=f"drops column {former.name.O}",
        )
    unmoved = _unmoved(
        [text for text in has if text in wants], [text for text in wants if text in has]
    )
    texts = {text: column_text(inheriting, column) for text, column in wants.items()}
    anchor, run = "", list[str]()
    for text, column in wants.items():
        if text in unmoved:
            yield from _run(run, anchor, has, wants, texts)
            anchor, run = text, []
            yield from _changed(old, has[text], column, was.get(text), after, new, texts[text])
        else:
            run.append(text)
    if all(text not in has for text in run) and _is_last(anchor, has, wants):
        for text in run:  # at the end of the table
            yield _added(wants[text], texts[text], "")
    else:
        yield from _run(run, anchor, has, wants, texts)


def _is_last(anchor: str, has: Mapping[str, ColumnInfo], wants: Mapping[str, ColumnInfo]) -> bool:
    """Whether the anchor is the last old column."""
    return not has or list(has)[-1] == anchor


def _run(
    run: list[str],
    anchor: str,
    has: Mapping[str, ColumnInfo],
    wants: Mapping[str, ColumnInfo],
    texts: Mapping[str, str],
) -> Iterator[Clause]:
    """Columns after one that stays, last one first, so that no clause names another new column."""
    place = f" AFTER {identifier(wants[anchor].name.O)}" if anchor else " FIRST"
    places = _of("c", [anchor])
    for text in reversed(run):
        column = wants[text]
        if text not in has:
            yield _added(column, texts[text], place)._replace(places=places)
        else:
            yield Clause(
                f"MODIFY COLUMN {texts[text]}{place}",
                modifies=_of("c", [text]),
                places=places,
                needs=_of("c", column.dependences or ()),
                loses=_narrowed(has[text].type, column),
            )


def _added(column: ColumnInfo, text: str, place: str) -> Clause:
    needs = _of("c", column.dependences or ())
    return Clause(f"ADD COLUMN {text}{place}", adds=_of("c", [column.name.L]), needs=needs)


def _changed(
    old: TableInfo,
    has: ColumnInfo,
    wants: ColumnInfo,
    was: str | None,
    after: TableInfo,
    new: TableInfo,
    text: str,
) -> Iterator[Clause]:
    """The clauses of a column that keeps its position."""
    bare = {"charset": "", "collate": ""}
    one, other = (column_text(evolve(t, **bare), c) for t, c in ((after, has), (new, wants)))
    needs = _of("c", wants.dependences or ())
    loses = _narrowed(has.type, wants)
    source = old.column(was) if was else None
    if source is not None:
        if one == other:
            what = f"RENAME COLUMN {identifier(source.name.O)} TO {identifier(wants.name.O)}"
        else:
            what = f"CHANGE COLUMN {identifier(source.name.O)} {text}"
        drops, adds = _of("c", [source.name.L]), _of("c", [wants.name.L])
        yield Clause(what, drops=drops, adds=adds, loses=loses)
    elif has.name.O != wants.name.O:
        what = f"CHANGE COLUMN {identifier(has.name.O)} {text}"
        yield Clause(what, modifies=_of("c", [wants.name.L]), needs=needs, loses=loses)
    elif one != other:
        what = f"MODIFY COLUMN {text}"
        yield Clause(what, modifies=_of("c", [wants.name.L]), needs=needs, loses=loses)


def _narrowed(old: FieldType, wants: ColumnInfo) -> str:
    if type_text(old) == type_text(wants.type) or is_widened(old, wants.type):
        return ""
    change = f"from {type_text(old)} to {type_text(wants.type)}"
    return f"converts column {wants.name.O} {change}"


def _unmoved(has: list[str], wants: list[str]) -> frozenset[str]:
    """The largest set of columns that keep their order while others move.

    It is the longest common subsequence of two orders of the same names: the longest ascending one
    of their positions."""
    places = {text: n for n, text in enumerate(has)}
    best: list[list[str]] = []
    for text in wants:
        before = [order for order in best if places[order[-1]] < places[text]]
        longest = sorted(before, key=len)[-1:] or [[]]
        best.append([*longest[0], text])
    return frozenset((sorted(best, key=len)[-1:] or [[]])[0])


# -- indexes ---------------------------------------------------------------------------------------


class _Index(NamedTuple):
    """The texts of an index. `text` with its name, `body` without; `info` None: the row's
    handle."""

    info: IndexInfo | None
    text: str
    body: str
    columns: frozenset[str]

    @property
    def is_clustered(self) -> bool:
        return self.info is None or self.info.exuvia_clustered


def _index_list(table: TableInfo) -> dict[str, _Index]:
    indexes = {}
    handle = handle_text(table)
    if handle:
        key_column = next(column for column in table.cols if column.type.Flag & Flag.PRI_KEY)
        indexes[_PRIMARY] = _Index(None, handle, handle, _of("c", [key_column.name.L]))
    for index in table.indexes:
        bare = evolve(index, is_invisible=False, idx_name=name("x"))
        if index.is_primary:  # a changed comment is not worth moving all rows
            bare = evolve(bare, comment="")
        names: list[str] = []
        for part in index.idx_cols:
            column = table.column_by_id(part.exuvia_column)
            is_hidden = column is not None and column.hidden
            names += (column.dependences or ()) if column and is_hidden else [part.name.L]
        names += [term.name.L for term in index.exuvia_predicate]
        key = _PRIMARY if index.is_primary else index.idx_name.L
        indexes[key] = _Index(
            index, index_text(table, index), index_text(table, bare), _of("c", names)
        )
    return indexes


def _indexes(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    has, wants = _index_list(after), _index_list(new)
    public = {column.name.L for column in new.public_columns}
    dropped = _of("c", (c.name.L for c in after.public_columns if c.name.L not in public))
    # PRIMARY cannot be renamed
    spare = [text for text in has if text not in wants and text != _PRIMARY]
    for text, index in wants.items():
        old = has.get(text)
        if old is None:
            same = next(
                (spare_name for spare_name in spare if has[spare_name].body == index.body), None
            )
            if same is not None and index.info is not None:
                spare.remove(same)
                yield _index_renamed(has[same], index.info.idx_name.O)
                yield from _visibility(has[same], index)
            else:
                yield _index_added(index, text)
        elif old.body != index.body:
            yield from _replaced(old, index, text, dropped, {*has, *wants})
        elif old.info is not None and index.info is not None:
            if old.info.idx_name.O != index.info.idx_name.O:
                yield _index_renamed(old, index.info.idx_name.O)
            yield from _visibility(old, index)
    for text in [*spare, *([_PRIMARY] if _PRIMARY in has and _PRIMARY not in wants else [])]:
        if not _is_dropped_with_column(has[text], dropped):
            yield _index_dropped(has[text], text)


def _replaced(
    old: _Index, index: _Index, text: str, dropped: frozenset[str], names: set[str]
) -> Iterator[Clause]:
    if text == _PRIMARY and (old.is_clustered or index.is_clustered):
        yield _key_changed(index, f"DROP PRIMARY KEY, ADD {index.text}")
    elif _is_dropped_with_column(old, dropped):
        yield _index_added(index, text)._replace(uses=index.columns, needs=old.columns)
    elif text == _PRIMARY or old.columns & dropped or old.info is None:
        yield _index_dropped(old, text)
        yield _index_added(index, text)
    else:
        spare = f"old_{old.info.idx_name.O}"[:IDENTIFIER_CHARS]
        while spare.lower() in names:
            spare = f"_{spare}"[:IDENTIFIER_CHARS]
        yield _index_renamed(old, spare)
        yield _index_added(index, text)
        yield Clause(f"DROP INDEX {identifier(spare)}", drops=_of("i", [spare]), uses=old.columns)


def _is_dropped_with_column(index: _Index, dropped: frozenset[str]) -> bool:
    """Whether the index is dropped with its only column. Columns of a predicate cannot be dropped
    (8272)."""
    plain = index.info is not None and index.info.holds_every_row and not index.info.is_primary
    return plain and len(index.columns) == 1 and index.columns <= dropped


def _key_changed(index: _Index, text: str) -> Clause:
    """A change of the clustered key. All rows get other handles, so it is the only clause."""
    return Clause(text, modifies=_of("i", [_PRIMARY]), uses=index.columns, early=True, alone=True)


def _index_added(index: _Index, text: str) -> Clause:
    if text == _PRIMARY and index.is_clustered:
        return _key_changed(index, f"ADD {index.text}")
    return Clause(f"ADD {index.text}", adds=_of("i", [text]), uses=index.columns)


def _index_dropped(index: _Index, text: str) -> Clause:
    if text == _PRIMARY or index.info is None:
        # Its columns cannot become NULL before. If it is clustered, all rows move to hidden ids
        drops, alone = _of("i", [_PRIMARY]), index.is_clustered
        return Clause("DROP PRIMARY KEY", drops=drops, uses=index.columns, early=True, alone=alone)
    what = f"DROP INDEX {identifier(index.info.idx_name.O)}"
    return Clause(what, drops=_of("i", [text]), uses=index.columns, early=True)


def _index_renamed(index: _Index, new: str) -> Clause:
    old = index.info.idx_name.O if index.info is not None else _PRIMARY
    what = f"RENAME INDEX {identifier(old)} TO {identifier(new)}"
    return Clause(what, drops=_of("i", [old]), adds=_of("i", [new]), uses=index.columns)


def _visibility(old: _Index, new: _Index) -> Iterator[Clause]:
    if old.info and new.info and old.info.is_invisible != new.info.is_invisible:
        word = "INVISIBLE" if new.info.is_invisible else "VISIBLE"
        what = f"ALTER INDEX {identifier(new.info.idx_name.O)} {word}"
        yield Clause(what, modifies=_of("i", [new.info.idx_name.L]), uses=old.columns)


# -- foreign keys and checks -----------------------------------------------------------------------


def _keys(table: TableInfo, home: str) -> dict[str, tuple[FkInfo, str]]:
    return {
        key.fk_name.L: (key, key_text(evolve(key, fk_name=name("x")), home, ","))
        for key in table.foreign_keys
    }


def _key_drops(after: TableInfo, new: TableInfo, home: str) -> Iterator[Clause]:
    wants = _keys(new, home)
    for text, (key, body) in _keys(after, home).items():
        if text not in wants or wants[text][1] != body:
            columns = [column.L for column in key.cols]
            serving = (i.idx_name.L for i in after.indexes if i.idx_cols[0].name.L in columns)
            yield Clause(
                f"DROP FOREIGN KEY {identifier(key.fk_name.O)}",
                drops=_of("f", [text]),
                uses=_of("c", columns) | _of("i", serving),
                early=True,
            )


def dropped_keys(current: TableInfo, target: TableInfo, home: str) -> tuple[FkInfo, ...]:
    """The foreign keys that the table loses, or that are replaced under the same name."""
    wants, has = _keys(_plain(target), home), _keys(_plain(current), home)
    lost = (text for text, (_, body) in has.items() if wants.get(text, (None, ""))[1] != body)
    return tuple(has[text][0] for text in lost)


def _key_adds(after: TableInfo, new: TableInfo, home: str) -> Iterator[Clause]:
    has = _keys(after, home)
    for text, (key, body) in _keys(new, home).items():
        if text not in has or has[text][1] != body:
            uses = _of("c", (column.L for column in key.cols))
            serving = (i.idx_name.L for i in new.indexes if i.idx_cols[0].name.L == key.cols[0].L)
            what = f"ADD {key_text(key, home, ',')}"
            # An index of the same definition is added first: otherwise the key creates another
            needs = _of(
                "i", (index_name for index_name in serving if after.index(index_name) is None)
            )
            yield Clause(what, adds=_of("f", [text]), uses=uses, needs=needs)


def check_text(check: ConstraintInfo) -> str:
    """The text CONSTRAINT `k` CHECK (condition)."""
    relaxed = "" if check.enforced else " NOT ENFORCED"
    return f"CONSTRAINT {identifier(check.constraint_name.O)} CHECK ({check.expr_string}){relaxed}"


def _columns_of_check(check: ConstraintInfo) -> frozenset[str]:
    return _of("c", (column.L for column in check.constraint_cols))


def _check_drops(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    wants = {check.constraint_name.L: check for check in new.checks}
    for check in after.checks:
        target = wants.get(check.constraint_name.L)
        if target is None or target.expr_string != check.expr_string:
            yield Clause(
                f"DROP CHECK {identifier(check.constraint_name.O)}",
                drops=_of("k", [check.constraint_name.L]),
                frees=_columns_of_check(check),
                early=True,
            )


def _check_adds(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    has = {check.constraint_name.L: check for check in after.checks}
    for check in new.checks:
        former = has.get(check.constraint_name.L)
        named = _of("k", [check.constraint_name.L])
        if former is None or former.expr_string != check.expr_string:
            yield Clause(f"ADD {check_text(check)}", adds=named, uses=_columns_of_check(check))
        elif former.enforced != check.enforced:
            word = "ENFORCED" if check.enforced else "NOT ENFORCED"
            title = identifier(check.constraint_name.O)
            yield Clause(f"ALTER CHECK {title} {word}", modifies=named)


# -- options and partitions ------------------------------------------------------------------------


def _options(old: TableInfo, new: TableInfo) -> Iterator[Clause]:
    if (old.charset, old.collate) != (new.charset, new.collate):
        yield Clause(f"DEFAULT CHARACTER SET {new.charset} COLLATE {new.collate}")
    if old.comment != new.comment:
        yield Clause(f"COMMENT {quoted(new.comment)}")
    if old.auto_id_cache != new.auto_id_cache:
        yield Clause(f"AUTO_ID_CACHE {new.auto_id_cache}", alone=True)
    if old.ShardRowIDBits != new.ShardRowIDBits:
        yield Clause(f"SHARD_ROW_ID_BITS {new.ShardRowIDBits}", alone=True)
    if old.policy_ref_info != new.policy_ref_info:
        yield Clause(f"PLACEMENT POLICY = {_policy(new.policy_ref_info)}", alone=True)
    if new.exuvia_ttl is None and old.exuvia_ttl is not None:
        yield Clause("REMOVE TTL", alone=True)
    elif new.exuvia_ttl is not None and old.exuvia_ttl != new.exuvia_ttl:
        yield Clause(" ".join(ttl_options(new.exuvia_ttl)), alone=True)
    if old.exuvia_affinity != new.exuvia_affinity:
        yield Clause(f"AFFINITY = '{new.exuvia_affinity or 'none'}'", alone=True)


def _policy(ref: PolicyRef | None) -> str:
    return "DEFAULT" if ref is None else identifier(ref.name.O)


def _policies_of_parts(old: PartitionInfo, new: PartitionInfo) -> list[Clause]:
    """Clauses for changed policies of the partitions that both tables have."""
    former = {definition.name.L: definition for definition in old.definitions}
    clauses = []
    for definition in new.definitions:
        has, title = former.get(definition.name.L), identifier(definition.name.O)
        if has is not None and has.policy_ref_info != definition.policy_ref_info:
            policy = _policy(definition.policy_ref_info)
            clauses.append(Clause(f"PARTITION {title} PLACEMENT POLICY = {policy}", alone=True))
    return clauses


def _bounds_only(definition: PartitionDefinition) -> PartitionDefinition:
    """The definition with nothing but its name and its bounds."""
    return evolve(definition, id=0, policy_ref_info=None, exuvia_attributes="")


def _bounds_text(table: TableInfo) -> str:
    """The partitioning clause without policies, because changing a policy moves no rows."""
    cut = table.partition
    if cut is not None:
        cut = evolve(cut, definitions=tuple(map(_bounds_only, cut.definitions)))
    return partition_text(evolve(table, partition=cut)).strip()


_BY_BOUNDS = (PartitionType.RANGE, PartitionType.LIST)


def _partitions(old: TableInfo, new: TableInfo) -> tuple[list[Clause], list[Clause]]:
    """The clauses before all others, and the clauses after them."""
    one, other = old.partition, new.partition
    if _bounds_text(old) == _bounds_text(new):
        return [], [] if one is None or other is None else _policies_of_parts(one, other)
    wants = partition_text(new).strip()
    if not wants:
        return [Clause("REMOVE PARTITIONING", alone=True)], []
    whole = Clause(wants, alone=True)
    if one is None or other is None or one.type not in _BY_BOUNDS:
        return [], [whole]
    bare = {"definitions": ()}
    cuts = [
        partition_text(evolve(t, partition=evolve(p, **bare)))
        for t, p in ((old, one), (new, other))
    ]
    before, after = (
        list(map(_bounds_only, one.definitions)),
        list(map(_bounds_only, other.definitions)),
    )
    if cuts[0] != cuts[1]:
        return [], [whole]
    if after[: len(before)] == before:
        more = partition_text(
            evolve(new, partition=evolve(other, definitions=other.definitions[len(before) :]))
        )
        listed = more.strip().split("\n", 1)[1]
        added = Clause(f"ADD PARTITION {listed}", alone=True)
        return [], [added, *_policies_of_parts(one, other)]
    remaining = [definition for definition in before if definition in after]
    if remaining == after:
        names = [definition.name.O for definition in before if definition not in after]
        listed = ", ".join(identifier(partition_name) for partition_name in names)
        lost = f"drops partition {', '.join(names)} with its rows"
        dropped = Clause(f"DROP PARTITION {listed}", alone=True, loses=lost)
        return [dropped], _policies_of_parts(one, other)
    return [], [whole]

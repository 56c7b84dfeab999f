"""The difference between two definitions of a table, as ALTER TABLEs; pure.

    TableInfo, TableInfo -> Clauses -> Alters        one, unless clauses may not stand together

What is compared is what SHOW CREATE TABLE says, piece by piece, so that a table is never different
from its own text. Not compared, since a definition cannot ask for it: where ids go on, a lock of
the schema, a change log, CACHE, PRE_SPLIT_REGIONS; nor the order of indexes.

A column of another name is another column, unless `-- renamed from old` ends its line. An index of
another name with the same parts is renamed. An index that changes gives its name to the new one
first, so that queries are never without it; where a column of it is dropped, it goes first. Rows
that get another clustered key, or none, do so in an ALTER TABLE of its own; columns that only the
former key has are changed or dropped after it.

Which clauses may not stand in one ALTER TABLE says ddl/multi_schema_change.py (8200, "operate same
column"): a clause that meets an earlier one goes into the next ALTER TABLE. So does a change of a
column beside one of an index that has it: of a rewritten column all indexes are built anew.
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
    """Clauses of one ALTER TABLE. `loses`: what rows lose by it, in words; "" for nothing."""

    clauses: tuple[str, ...]
    loses: str = ""


class Clause(NamedTuple):
    """One change, and the names it meets others by: c:column, i:index, f:foreign key, k:check.

    `uses` must be there and stay as it is, and may be added beside it; `needs` may not even be
    added beside it; `places` is a neighbour, which may be modified; `frees` may be modified beside
    it, and dropped only afterwards. `early`: before all that is not."""

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
    wanted: TableInfo,
    home: str,
    renamed: Mapping[str, str],
) -> tuple[Alter, ...]:
    """What makes `wanted` of `current`, in order. `home`: their database; `renamed`: a column's new
    name to its old one, in lower case. Foreign keys have the names of today."""
    old, new = _plain(current), _plain(wanted)
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
    found = list(_steps(old, after, between, home, names))
    if between is not new:
        found += _steps(between, between, new, home, {})
    return tuple(found)


def _steps(
    old: TableInfo, after: TableInfo, new: TableInfo, home: str, names: Mapping[str, Name]
) -> Iterator[Alter]:
    """`after`: the old one with its columns' new names."""
    shown = evolve(new, charset=old.charset, collate=old.collate)  # ALTER's texts inherit these
    clauses = [
        *_check_drops(after, new),
        *_key_drops(after, new, home),
        *_columns(old, after, new, shown, names),
        *_indexes(after, new),
        *_key_adds(after, new, home),
        *_check_adds(after, new),
        *_options(old, new),
    ]
    clauses.sort(key=lambda each: (each.alone, not each.early))
    first, last = _partitions(old, new)
    return _alters([*first, *clauses, *last])


def _with_former_key(after: TableInfo, new: TableInfo) -> TableInfo:
    """The new table, but that columns which leave the clustered key are still what they were."""
    had, wants = (_index_list(each).get(_PRIMARY) for each in (after, new))
    if had is None or not had.is_clustered:
        return new
    stay = _NOTHING if wants is None else wants.columns
    columns = list(new.cols)
    of_key = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)
    before: list[str] = []
    for old in after.public_columns:
        wanted = new.column(old.name.L)
        if _of("c", [old.name.L]) <= had.columns - stay:
            kept = evolve(old, type=evolve(old.type, Flag=old.type.Flag & ~of_key))
            if wanted is not None:
                columns[columns.index(wanted)] = evolve(kept, id=wanted.id)
            else:
                there = [each.name.L for each in columns]
                at = next((there.index(n) + 1 for n in reversed(before) if n in there), 0)
                columns.insert(at, evolve(kept, id=-old.id))
        before.append(old.name.L)
    if tuple(columns) == new.cols:
        return new
    return evolve(new, cols=tuple(columns))


def hints(text: str) -> dict[str, str]:
    """New name to old one, in lower case, of each line of a CREATE TABLE that ends so."""
    found = (_HINT.match(line) for line in text.splitlines())
    return {
        (each["new"] or each["new_word"]).lower(): (each["old"] or each["old_word"]).lower()
        for each in found
        if each
    }


_HINT = re.compile(
    r"\s*(?:`(?P<new>[^`]+)`|(?P<new_word>[\w$]+))\s.*--\s+renamed from\s+"
    r"(?:`(?P<old>[^`]+)`|(?P<old_word>[\w$]+))\s*$",
    re.IGNORECASE,
)


# -- what may stand together -----------------------------------------------------------------------


def _alters(clauses: Iterable[Clause]) -> Iterator[Alter]:
    stages: list[list[Clause]] = []
    placed: list[tuple[Clause, int]] = []
    for each in clauses:
        after = [at + 1 for other, at in placed if _meet(other, each)]
        # Of columns behind one that stays, the last comes first
        after += [at for other, at in placed if each.places and other.places == each.places]
        at = len(stages) if each.alone else max(after, default=0)
        while at < len(stages) and any(other.alone for other in stages[at]):
            at += 1
        if at == len(stages):
            stages.append([])
        stages[at].append(each)
        placed.append((each, at))
    for stage in stages:
        loses = "; ".join(each.loses for each in stage if each.loses)
        yield Alter(tuple(each.text for each in stage), loses)


def _meet(one: Clause, other: Clause) -> bool:
    """Whether the other has to come in a later statement than this."""
    if one.changes & other.changes or one.frees & other.drops:
        return True
    for a, b in ((one, other), (other, one)):
        used = a.uses & (b.drops | b.modifies) or a.needs & b.changes
        if used or a.places & (b.adds | b.drops):
            return True
    return False


# -- one form for all ------------------------------------------------------------------------------


def _plain(table: TableInfo) -> TableInfo:
    """What clients see, without what a definition cannot say."""
    shown = (column for column in table.cols if column.state == SchemaState.PUBLIC)
    columns = tuple(
        _with_default_said(_with_bare_expression(each))
        if not each.hidden
        else _with_bare_expression(each)
        for each in shown
    )
    return evolve(
        table,
        cols=columns,
        index_info=tuple(each for each in table.indexes if each.state == SchemaState.PUBLIC),
        fk_info=tuple(each for each in table.foreign_keys if each.state == SchemaState.PUBLIC),
        constraint_info=tuple(
            evolve(each, expr_string=_bare(each.expr_string))
            for each in table.checks
            if each.state == SchemaState.PUBLIC
        ),
    )


def _with_default_said(column: ColumnInfo) -> ColumnInfo:
    """Nullable without a default: its text, made again, says DEFAULT NULL."""
    lost = int(Flag.NO_DEFAULT_VALUE)
    if column.not_null or not column.type.Flag & lost:
        return column
    return evolve(column, type=evolve(column.type, Flag=column.type.Flag & ~lost))


def _with_bare_expression(column: ColumnInfo) -> ColumnInfo:
    return evolve(column, generated_expr_string=_bare(column.generated_expr_string))


def _bare(text: str) -> str:
    """An expression without its outer parentheses, which printing it adds."""
    while is_wrapped(text):
        text = text[1:-1]
    return text


def _with_names(table: TableInfo, names: Mapping[str, Name]) -> TableInfo:
    """The table once columns have been renamed (lower-case old name to new one)."""
    if not names:
        return table
    return evolve(
        table,
        cols=tuple(evolve(each, name=names.get(each.name.L, each.name)) for each in table.cols),
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
            evolve(key, cols=tuple(names.get(each.L, each) for each in key.cols))
            for key in table.foreign_keys
        ),
    )


def _of(kind: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{kind}:{each.lower()}" for each in names)


# -- columns ---------------------------------------------------------------------------------------


def _columns(
    old: TableInfo,
    after: TableInfo,
    new: TableInfo,
    shown: TableInfo,
    names: Mapping[str, Name],
) -> Iterator[Clause]:
    """`after`: the old ones by their new names; `shown`: the new table as an ALTER inherits."""
    has = {each.name.L: each for each in after.public_columns}
    wants = {each.name.L: each for each in new.public_columns}
    was = {column.L: text for text, column in names.items()}
    gone = [each for text, each in has.items() if text not in wants]
    # What is computed from others goes before them, and it stands behind them
    gone.reverse()
    for each in sorted(gone, key=lambda column: not column.is_generated):
        yield Clause(
            f"DROP COLUMN {identifier(each.name.O)}",
            drops=_of("c", [each.name.L]),
            needs=_of("c", each.dependences or ()),
            loses=f"drops column {each.name.O}",
        )
    kept = _kept([text for text in has if text in wants], [text for text in wants if text in has])
    texts = {text: column_text(shown, each) for text, each in wants.items()}
    anchor, run = "", list[str]()
    for text, column in wants.items():
        if text in kept:
            yield from _run(run, anchor, has, wants, texts)
            anchor, run = text, []
            yield from _changed(old, has[text], column, was.get(text), after, new, texts[text])
        else:
            run.append(text)
    if all(text not in has for text in run) and _is_last(anchor, has, wants):
        for text in run:  # behind all others
            yield _added(wants[text], texts[text], "")
    else:
        yield from _run(run, anchor, has, wants, texts)


def _is_last(anchor: str, has: Mapping[str, ColumnInfo], wants: Mapping[str, ColumnInfo]) -> bool:
    """Whether no other old column stands behind it."""
    return not has or list(has)[-1] == anchor


def _run(
    run: list[str],
    anchor: str,
    has: Mapping[str, ColumnInfo],
    wants: Mapping[str, ColumnInfo],
    texts: Mapping[str, str],
) -> Iterator[Clause]:
    """Columns to stand behind one that stays, the last of them first: so none names another."""
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
    """A column that stays where it is."""
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


def _kept(has: list[str], wants: list[str]) -> frozenset[str]:
    """The most columns that can stay while others move: the longest common subsequence of two
    orders of the same names, which is the longest rising one of places."""
    places = {text: n for n, text in enumerate(has)}
    best: list[list[str]] = []
    for text in wants:
        before = [each for each in best if places[each[-1]] < places[text]]
        longest = sorted(before, key=len)[-1:] or [[]]
        best.append([*longest[0], text])
    return frozenset((sorted(best, key=len)[-1:] or [[]])[0])


# -- indexes ---------------------------------------------------------------------------------------


class _Index(NamedTuple):
    """`text` with its name, `body` without; `info` None: the row's handle."""

    info: IndexInfo | None
    text: str
    body: str
    columns: frozenset[str]

    @property
    def is_clustered(self) -> bool:
        return self.info is None or self.info.exuvia_clustered


def _index_list(table: TableInfo) -> dict[str, _Index]:
    found = {}
    handle = handle_text(table)
    if handle:
        held = next(each for each in table.cols if each.type.Flag & Flag.PRI_KEY)
        found[_PRIMARY] = _Index(None, handle, handle, _of("c", [held.name.L]))
    for index in table.indexes:
        bare = evolve(index, is_invisible=False, idx_name=name("x"))
        if index.is_primary:  # another comment is not worth a key, nor moving all rows
            bare = evolve(bare, comment="")
        names: list[str] = []
        for part in index.idx_cols:
            column = table.column_by_id(part.exuvia_column)
            hidden = column is not None and column.hidden
            names += (column.dependences or ()) if column and hidden else [part.name.L]
        names += [term.name.L for term in index.exuvia_predicate]
        key = _PRIMARY if index.is_primary else index.idx_name.L
        found[key] = _Index(
            index, index_text(table, index), index_text(table, bare), _of("c", names)
        )
    return found


def _indexes(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    has, wants = _index_list(after), _index_list(new)
    public = {each.name.L for each in new.public_columns}
    dropped = _of("c", (c.name.L for c in after.public_columns if c.name.L not in public))
    # PRIMARY alone has a name that says it all, and none that could be another's
    spare = [text for text in has if text not in wants and text != _PRIMARY]
    for text, index in wants.items():
        old = has.get(text)
        if old is None:
            same = next((each for each in spare if has[each].body == index.body), None)
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
        if not _goes_along(has[text], dropped):
            yield _index_dropped(has[text], text)


def _replaced(
    old: _Index, index: _Index, text: str, dropped: frozenset[str], taken: set[str]
) -> Iterator[Clause]:
    if text == _PRIMARY and (old.is_clustered or index.is_clustered):
        yield _key_changed(index, f"DROP PRIMARY KEY, ADD {index.text}")
    elif _goes_along(old, dropped):
        yield _index_added(index, text)._replace(uses=index.columns, needs=old.columns)
    elif text == _PRIMARY or old.columns & dropped or old.info is None:
        yield _index_dropped(old, text)
        yield _index_added(index, text)
    else:
        spare = f"old_{old.info.idx_name.O}"[:IDENTIFIER_CHARS]
        while spare.lower() in taken:
            spare = f"_{spare}"[:IDENTIFIER_CHARS]
        yield _index_renamed(old, spare)
        yield _index_added(index, text)
        yield Clause(f"DROP INDEX {identifier(spare)}", drops=_of("i", [spare]), uses=old.columns)


def _goes_along(index: _Index, dropped: frozenset[str]) -> bool:
    """Whether it goes with its only column. A column of a predicate is refused to go (8272)."""
    plain = index.info is not None and index.info.holds_every_row and not index.info.is_primary
    return plain and len(index.columns) == 1 and index.columns <= dropped


def _key_changed(index: _Index, text: str) -> Clause:
    """All rows get other handles: nothing else may be asked for beside it."""
    return Clause(text, modifies=_of("i", [_PRIMARY]), uses=index.columns, early=True, alone=True)


def _index_added(index: _Index, text: str) -> Clause:
    if text == _PRIMARY and index.is_clustered:
        return _key_changed(index, f"ADD {index.text}")
    return Clause(f"ADD {index.text}", adds=_of("i", [text]), uses=index.columns)


def _index_dropped(index: _Index, text: str) -> Clause:
    if text == _PRIMARY or index.info is None:
        # Its columns cannot be NULL before; of a clustered one, all rows move to hidden ids
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
            held = [each.L for each in key.cols]
            serving = (i.idx_name.L for i in after.indexes if i.idx_cols[0].name.L in held)
            yield Clause(
                f"DROP FOREIGN KEY {identifier(key.fk_name.O)}",
                drops=_of("f", [text]),
                uses=_of("c", held) | _of("i", serving),
                early=True,
            )


def dropped_keys(current: TableInfo, wanted: TableInfo, home: str) -> tuple[FkInfo, ...]:
    """The foreign keys that the table loses, for good or for another one of the name."""
    wants, has = _keys(_plain(wanted), home), _keys(_plain(current), home)
    lost = (text for text, (_, body) in has.items() if wants.get(text, (None, ""))[1] != body)
    return tuple(has[text][0] for text in lost)


def _key_adds(after: TableInfo, new: TableInfo, home: str) -> Iterator[Clause]:
    has = _keys(after, home)
    for text, (key, body) in _keys(new, home).items():
        if text not in has or has[text][1] != body:
            uses = _of("c", (each.L for each in key.cols))
            serving = (i.idx_name.L for i in new.indexes if i.idx_cols[0].name.L == key.cols[0].L)
            what = f"ADD {key_text(key, home, ',')}"
            # An index that the same file asks for is there first: else the key makes another
            needs = _of("i", (each for each in serving if after.index(each) is None))
            yield Clause(what, adds=_of("f", [text]), uses=uses, needs=needs)


def check_text(check: ConstraintInfo) -> str:
    """CONSTRAINT `k` CHECK (condition)."""
    relaxed = "" if check.enforced else " NOT ENFORCED"
    return f"CONSTRAINT {identifier(check.constraint_name.O)} CHECK ({check.expr_string}){relaxed}"


def _columns_of_check(check: ConstraintInfo) -> frozenset[str]:
    return _of("c", (each.L for each in check.constraint_cols))


def _check_drops(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    wants = {each.constraint_name.L: each for each in new.checks}
    for each in after.checks:
        kept = wants.get(each.constraint_name.L)
        if kept is None or kept.expr_string != each.expr_string:
            yield Clause(
                f"DROP CHECK {identifier(each.constraint_name.O)}",
                drops=_of("k", [each.constraint_name.L]),
                frees=_columns_of_check(each),
                early=True,
            )


def _check_adds(after: TableInfo, new: TableInfo) -> Iterator[Clause]:
    has = {each.constraint_name.L: each for each in after.checks}
    for each in new.checks:
        held = has.get(each.constraint_name.L)
        named = _of("k", [each.constraint_name.L])
        if held is None or held.expr_string != each.expr_string:
            yield Clause(f"ADD {check_text(each)}", adds=named, uses=_columns_of_check(each))
        elif held.enforced != each.enforced:
            word = "ENFORCED" if each.enforced else "NOT ENFORCED"
            title = identifier(each.constraint_name.O)
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
    """Other policies of the partitions that both have."""
    held = {each.name.L: each for each in old.definitions}
    found = []
    for each in new.definitions:
        has, title = held.get(each.name.L), identifier(each.name.O)
        if has is not None and has.policy_ref_info != each.policy_ref_info:
            policy = _policy(each.policy_ref_info)
            found.append(Clause(f"PARTITION {title} PLACEMENT POLICY = {policy}", alone=True))
    return found


def _as_cut(each: PartitionDefinition) -> PartitionDefinition:
    """How it is cut, and nothing else of it."""
    return evolve(each, id=0, policy_ref_info=None, exuvia_attributes="")


def _cut_text(table: TableInfo) -> str:
    """How the table is cut, without policies: another one moves no row."""
    cut = table.partition
    if cut is not None:
        cut = evolve(cut, definitions=tuple(map(_as_cut, cut.definitions)))
    return partition_text(evolve(table, partition=cut)).strip()


_BY_BOUNDS = (PartitionType.RANGE, PartitionType.LIST)


def _partitions(old: TableInfo, new: TableInfo) -> tuple[list[Clause], list[Clause]]:
    """What comes before all else, and what after it."""
    one, other = old.partition, new.partition
    if _cut_text(old) == _cut_text(new):
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
    before, after = list(map(_as_cut, one.definitions)), list(map(_as_cut, other.definitions))
    if cuts[0] != cuts[1]:
        return [], [whole]
    if after[: len(before)] == before:
        more = partition_text(
            evolve(new, partition=evolve(other, definitions=other.definitions[len(before) :]))
        )
        listed = more.strip().split("\n", 1)[1]
        added = Clause(f"ADD PARTITION {listed}", alone=True)
        return [], [added, *_policies_of_parts(one, other)]
    left = [each for each in before if each in after]
    if left == after:
        names = [each.name.O for each in before if each not in after]
        listed = ", ".join(identifier(each) for each in names)
        lost = f"drops partition {', '.join(names)} with its rows"
        dropped = Clause(f"DROP PARTITION {listed}", alone=True, loses=lost)
        return [dropped], _policies_of_parts(one, other)
    return [], [whole]

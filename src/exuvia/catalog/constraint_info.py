"""CHECK and FOREIGN KEY at rest, with the JSON names of TiDB; our own begin with `exuvia_`.

    child.fk_info            names as written, and ids of columns: they survive renames
    parent.exuvia_referred   the same key seen from the other side: what a parent's writer owes

Both are moved by the same step, so each side's writers have their duty under a revision of their
own table. Both bear the key's link, a number of its own; which tables it joins now, whatever was
renamed, truncated or dropped and made anew since, says catalog/references.py.
"""

from enum import IntEnum

import msgspec

from exuvia.catalog.names import Name
from exuvia.catalog.state import SchemaState

DUTY_STATES = frozenset({SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG, SchemaState.PUBLIC})


class ConstraintInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A CHECK. `expr_string` is the condition with its names quoted and its strings introduced."""

    id: int = 0
    constraint_name: Name
    tbl_name: Name = Name("", "")
    constraint_cols: tuple[Name, ...] = ()
    enforced: bool = True
    in_column: bool = False
    expr_string: str = ""
    state: SchemaState = SchemaState.PUBLIC

    @property
    def binds(self) -> bool:
        """Whether who writes a row must obey it."""
        return self.enforced and self.state in DUTY_STATES


class Rule(IntEnum):
    """What happens to a child when its parent goes or changes; TiDB's numbers."""

    NONE = 0
    RESTRICT = 1
    CASCADE = 2
    SET_NULL = 3
    NO_ACTION = 4
    SET_DEFAULT = 5


RULE_TEXT = {rule: rule.name.replace("_", " ") for rule in Rule if rule}
RULES = {text: rule for rule, text in RULE_TEXT.items()}


class FkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign key, in its child. Version 0: made while tidb_enable_foreign_key was OFF, and
    never obeyed."""

    id: int = 0
    fk_name: Name
    ref_schema: Name
    ref_table: Name
    ref_cols: tuple[Name, ...]
    cols: tuple[Name, ...]
    on_delete: Rule = Rule.NONE
    on_update: Rule = Rule.NONE
    state: SchemaState = SchemaState.PUBLIC
    version: int = 1
    exuvia_link: int = 0
    exuvia_orphan: bool = False  # made while there was no table of that name
    exuvia_cols: tuple[int, ...] = ()
    exuvia_ref_cols: tuple[int, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether who writes a child must have a parent, and leave a mark there."""
        return self.version > 0 and self.state in DUTY_STATES | {SchemaState.DELETE_ONLY}


class Referred(msgspec.Struct, frozen=True):
    """A foreign key, in its parent. `columns`: ids of those referred to; `names`: instead of them
    while it waits for a parent."""

    link: int
    state: SchemaState = SchemaState.PUBLIC
    columns: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether who removes a parent must look at its children. Not while the key is being added
        and some who write children leave no mark yet: then it is ABSENT here."""
        return self.state in DUTY_STATES | {SchemaState.DELETE_ONLY}

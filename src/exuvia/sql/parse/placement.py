"""Parsers of statements about placement policies and resource groups.

TiDB's manual, "Placement Rules in SQL", "Resource Control". Equals signs and commas are optional.
The last of duplicate options counts."""

import re
from collections.abc import Callable

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import ErrTooLongIdent, ErrUnknown
from exuvia.catalog.placement import UNLIMITED
from exuvia.sql.nodes import (
    AlterPlacementPolicy,
    AlterResourceGroup,
    CreatePlacementPolicy,
    CreateResourceGroup,
    DropPlacementPolicy,
    DropResourceGroup,
    Node,
    SetResourceGroup,
)
from exuvia.sql.parse.create_table import if_not_exists
from exuvia.sql.parse.cursor import TokenCursor

_TEXTS = frozenset(
    (
        *("PRIMARY_REGION", "REGIONS", "SCHEDULE", "CONSTRAINTS", "LEADER_CONSTRAINTS"),
        *("VOTER_CONSTRAINTS", "FOLLOWER_CONSTRAINTS", "LEARNER_CONSTRAINTS"),
        "SURVIVAL_PREFERENCES",
    )
)
_NUMBERS = frozenset(("FOLLOWERS", "VOTERS", "LEARNERS"))
Options = tuple[tuple[str, str | int], ...]


# -- policies --------------------------------------------------------------------------------------


def create_policy(cursor: TokenCursor, replace: bool) -> Node:
    """CREATE [OR REPLACE] PLACEMENT POLICY, after these words."""
    absent = if_not_exists(cursor)
    return CreatePlacementPolicy(_new_name(cursor), _settings(cursor), absent, replace)


def alter_policy(cursor: TokenCursor) -> Node:
    """ALTER PLACEMENT POLICY, after these words."""
    present = cursor.accept("IF", "EXISTS")
    return AlterPlacementPolicy(cursor.name(), _settings(cursor), present)


def drop_policy(cursor: TokenCursor) -> Node:
    """DROP PLACEMENT POLICY, after these words."""
    present = cursor.accept("IF", "EXISTS")
    return DropPlacementPolicy(cursor.name(), present)


def _new_name(cursor: TokenCursor) -> str:
    name = "DEFAULT" if cursor.accept("DEFAULT") else cursor.name()
    if len(name) > IDENTIFIER_CHARS:
        raise ErrTooLongIdent(name)
    return name


def _settings(cursor: TokenCursor) -> Options:
    settings: dict[str, str | int] = {}
    while not cursor.done:
        word = cursor.peek()
        if word not in _TEXTS | _NUMBERS:
            raise cursor.error()
        cursor.take()
        cursor.accept("=")
        if word in _TEXTS:
            settings[word.lower()] = cursor.string()
        else:
            settings[word.lower()] = number = cursor.integer()
            if word == "FOLLOWERS" and number == 0:
                raise ErrUnknown("FOLLOWERS must be positive")
        if cursor.accept(",") and cursor.done:
            raise cursor.error()
    if not settings:
        raise cursor.error()
    return tuple(settings.items())


# -- resource groups -------------------------------------------------------------------------------

_DURATION = re.compile(r"(\d+(\.\d+)?(ns|us|ms|s|m|h))+")
_ACTIONS = ("DRYRUN", "COOLDOWN", "KILL")
_BURSTS = ("MODERATED", "UNLIMITED", "OFF")


def create_group(cursor: TokenCursor) -> Node:
    """CREATE RESOURCE GROUP, after these words."""
    absent = if_not_exists(cursor)
    return CreateResourceGroup(_group_name(cursor), _group_options(cursor), absent)


def alter_group(cursor: TokenCursor) -> Node:
    """ALTER RESOURCE GROUP, after these words."""
    present = cursor.accept("IF", "EXISTS")
    options = _group_name(cursor), _group_options(cursor)
    if not options[1]:
        raise cursor.error()
    return AlterResourceGroup(*options, present)


def drop_group(cursor: TokenCursor) -> Node:
    """DROP RESOURCE GROUP, after these words."""
    present = cursor.accept("IF", "EXISTS")
    return DropResourceGroup(_group_name(cursor), present)


def set_group(cursor: TokenCursor) -> Node:
    """SET RESOURCE GROUP, after these words."""
    return SetResourceGroup(_group_name(cursor))


def _group_name(cursor: TokenCursor) -> str:
    return "default" if cursor.accept("DEFAULT") else cursor.name()


def _group_options(cursor: TokenCursor) -> Options:
    options: dict[str, str | int] = {}
    while not cursor.done:
        word = cursor.accept_any(*_GROUP_OPTIONS)
        if not word:
            raise cursor.error()
        cursor.accept("=")
        options[word.lower()] = _GROUP_OPTIONS[word](cursor)
        if cursor.accept(",") and cursor.done:
            raise cursor.error()
    if "burstable" in options:
        options["burstable"] = str(options["burstable"]).replace("OFF", "")
    return tuple(options.items())


def _rate(cursor: TokenCursor) -> int:
    return UNLIMITED if cursor.accept("UNLIMITED") else cursor.integer()


def _priority(cursor: TokenCursor) -> str:
    return _one_of(cursor, "LOW", "MEDIUM", "HIGH")


def _burst(cursor: TokenCursor) -> str:
    """The mode of BURSTABLE, MODERATED by default. SHOW CREATE RESOURCE GROUP prints
    BURSTABLE(MODERATED)."""
    if cursor.accept("("):
        burst = _one_of(cursor, *_BURSTS)
        cursor.expect(")")
        return burst
    word = cursor.accept_any(*_BURSTS, "TRUE", "FALSE")
    return {"TRUE": "MODERATED", "FALSE": "OFF", "": "MODERATED"}.get(word, word)


def _limit(cursor: TokenCursor) -> str:
    """The parts of QUERY_LIMIT=(...) as SHOW prints them; "" for NULL, which means no limit."""
    if cursor.accept("NULL"):
        return ""
    cursor.expect("(")
    parts: dict[str, str] = {}
    while not cursor.accept(")"):
        word = _one_of(cursor, "EXEC_ELAPSED", "PROCESSED_KEYS", "RU", "ACTION", "WATCH")
        cursor.accept("=")
        if word == "EXEC_ELAPSED":
            parts[word] = f'{word}="{_duration(cursor)}"'
        elif word in ("PROCESSED_KEYS", "RU"):
            parts[word] = f"{word}={cursor.integer()}"
        elif word == "ACTION":
            parts[word] = f"{word}={_action(cursor)}"
        else:
            parts[word] = f"{word}={_watch(cursor)}"
        cursor.accept(",")
    if not parts.keys() & {"EXEC_ELAPSED", "PROCESSED_KEYS", "RU"}:
        raise ErrUnknown("please set at least one field(exec_elapsed_time_ms, processed_keys, ru)")
    if "ACTION" not in parts:
        raise ErrUnknown("unknown resource group runaway action")
    order = ("EXEC_ELAPSED", "PROCESSED_KEYS", "RU", "ACTION", "WATCH")
    return ", ".join(parts[word] for word in order if word in parts)


def _action(cursor: TokenCursor) -> str:
    if cursor.accept("SWITCH_GROUP"):
        cursor.expect("(")
        name = _group_name(cursor).replace("`", "``")
        cursor.expect(")")
        return f"SWITCH_GROUP(`{name}`)"
    return _one_of(cursor, *_ACTIONS)


def _watch(cursor: TokenCursor) -> str:
    kind = _one_of(cursor, "EXACT", "SIMILAR", "PLAN")
    if not cursor.accept("DURATION"):
        return f"{kind} DURATION=UNLIMITED"
    cursor.accept("=")
    if cursor.accept("UNLIMITED"):
        return f"{kind} DURATION=UNLIMITED"
    return f'{kind} DURATION="{_duration(cursor)}"'


def _duration(cursor: TokenCursor) -> str:
    """A duration in Go's format: 1h30m, 500ms. Raises 1105."""
    text = cursor.string()
    if not _DURATION.fullmatch(text):
        raise ErrUnknown(f'time: invalid duration "{text}"')
    return text


def _background(cursor: TokenCursor) -> str:
    """The parts of BACKGROUND=(...) as SHOW prints them; "" for NULL."""
    if cursor.accept("NULL"):
        return ""
    cursor.expect("(")
    parts: dict[str, str] = {}
    while not cursor.accept(")"):
        word = _one_of(cursor, "TASK_TYPES", "UTILIZATION_LIMIT")
        cursor.accept("=")
        if word == "TASK_TYPES":
            types = cursor.string().replace("\\", "").replace("'", "")
            parts[word] = f"{word}='{types}'"
        else:
            parts[word] = f"{word}={cursor.integer()}"
        cursor.accept(",")
    return ", ".join(parts.values())


def _one_of(cursor: TokenCursor, *words: str) -> str:
    word = cursor.accept_any(*words)
    if not word:
        raise cursor.error()
    return word


_GROUP_OPTIONS: dict[str, Callable[[TokenCursor], str | int]] = {
    "RU_PER_SEC": _rate,
    "PRIORITY": _priority,
    "BURSTABLE": _burst,
    "QUERY_LIMIT": _limit,
    "BACKGROUND": _background,
}

"""Definitions of many variables, read from short texts.

Each entry is name=default, with bounds or choices behind : and, where it is not both, the scope
behind / (G: global, S: session).
"""

from exuvia.catalog.variable import Kind, Variable


def named(table: str) -> list[tuple[str, str, str]]:
    """(name, what stands behind =, scope) of each entry."""
    found = []
    for entry in table.split():
        name, _, rest = entry.partition("=")
        value, slash, scope = rest.rpartition("/")
        if not slash or scope not in ("G", "S", "GS"):
            value, scope = rest, "GS"
        found.append((name, value, scope))
    return found


def flags(table: str) -> list[Variable]:
    """ON or OFF."""
    return [Variable(name, value, scope, Kind.BOOL) for name, value, scope in named(table)]


def numbers(table: str) -> list[Variable]:
    """name=default:least:most, whole numbers."""
    return _bounded(table, Kind.INTEGER)


def reals(table: str) -> list[Variable]:
    """name=default:least:most."""
    return _bounded(table, Kind.REAL)


def texts(table: str) -> list[Variable]:
    """Any text."""
    return [Variable(*each) for each in named(table)]


def fixed(table: str) -> list[Variable]:
    """What is only shown, in both scopes."""
    return [each._replace(read_only=True) for each in texts(table)]


def choices(table: str) -> list[Variable]:
    """name=default:choice:choice ..."""
    return [_chosen(*each) for each in named(table)]


def _bounded(table: str, kind: Kind) -> list[Variable]:
    number = int if kind is Kind.INTEGER else float
    found = []
    for name, value, scope in named(table):
        default, least, most = value.split(":")
        found.append(Variable(name, default, scope, kind, number(least), number(most)))
    return found


def _chosen(name: str, value: str, scope: str) -> Variable:
    default, *rest = value.split(":")
    return Variable(name, default, scope, Kind.CHOICE, choices=tuple(rest))

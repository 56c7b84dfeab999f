"""Roles: accounts that are granted to accounts. What was granted is a graph, read from the account.

    role --edge--> account        mysql.role_edges
    account -> default roles      mysql.default_roles; active from the login on
    mandatory_roles               granted to everybody, by that variable

A role's own roles are active with it. A cycle does no harm.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

Name = tuple[str, str]
"""User and host."""

_ROLE = re.compile(
    r"""\s*(?:'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s@,'"`]+))"""
    r"""(?:@(?:'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s,'"`]+)))?\s*(?:,|$)"""
)


class Edge(NamedTuple):
    """A row of mysql.role_edges: the role was granted `to` an account."""

    role: Name
    to: Name
    admin: bool = False


class Roles(NamedTuple):
    """Who was granted which."""

    edges: tuple[Edge, ...] = ()
    defaults: tuple[tuple[Name, Name], ...] = ()  # account, role
    mandatory: tuple[Name, ...] = ()

    def granted(self, account: Name) -> tuple[Name, ...]:
        """Granted to it itself, and to everybody; by name."""
        own = {edge.role for edge in self.edges if edge.to == account}
        return tuple(sorted(own.union(self.mandatory) - {account}))

    def defaults_of(self, account: Name) -> tuple[Name, ...]:
        """Active from its login on, by name."""
        return tuple(sorted(role for one, role in self.defaults if one == account))

    def reachable(self, account: Name, active: Iterable[Name]) -> set[Name]:
        """Those of the active roles that were granted to it, and all that was granted to them."""
        granted = self._closure([account]) | set(self.mandatory)
        return self._closure([each for each in active if each in granted], with_ends=True)

    def may_pass_on(self, account: Name, role: Name) -> bool:
        """Whether it was granted the role WITH ADMIN OPTION."""
        return any(each == (role, account, True) for each in self.edges)

    def _closure(self, ends: list[Name], with_ends: bool = False) -> set[Name]:
        found: set[Name] = set(ends) if with_ends else set()
        waiting = list(ends)
        while waiting:
            name = waiting.pop()
            for edge in self.edges:
                if edge.to == name and edge.role not in found:
                    found.add(edge.role)
                    waiting.append(edge.role)
        return found


NOBODY = Roles()


def names_of(text: str) -> tuple[Name, ...]:
    """The accounts that the text of a variable lists."""
    found = []
    for each in _ROLE.finditer(text):
        user = next((part for part in each.groups()[:4] if part), "")
        host = next((part for part in each.groups()[4:] if part), "%")
        if user:
            found.append((user, host.lower()))
    return tuple(found)


def shown(name: Name) -> str:
    """`role`@`host`, as CURRENT_ROLE() has it."""
    return f"`{name[0]}`@`{name[1]}`"

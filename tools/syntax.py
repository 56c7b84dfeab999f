"""The notation of syntax blocks: read, drawn as a railroad diagram, and spelled out as statements.

    CREATE [ UNIQUE ] INDEX name ON table ( part [, ...] )      capitals and signs: as they are
    { ASC | DESC }                                              one of them
    part ...                                                    one or more; with [, ...] by commas

    part:                                                       a rule, used above by its name
        column [ ( n ) ]

    read(text) -> rules -> diagram(rule)           SVG
                        -> sentences(rules, ...)   statements that use each branch at least once

A name without a rule is a placeholder: docs/statements/elements.md says what it stands for, and has
the sample that `sentences` writes in its place.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from io import StringIO
from typing import NamedTuple

import railroad

# -- the notation ----------------------------------------------------------------------------------


class Word(NamedTuple):
    """A keyword or a sign, as it is."""

    text: str


class Name(NamedTuple):
    """A placeholder or the name of a rule."""

    text: str


class Sequence(NamedTuple):
    items: tuple["Node", ...]


class Choice(NamedTuple):
    items: tuple["Node", ...]


class Optional(NamedTuple):
    item: "Node"


class Repeat(NamedTuple):
    """One or more. `separator` "": nothing between them."""

    item: "Node"
    separator: str


Node = Word | Name | Sequence | Choice | Optional | Repeat


class Rule(NamedTuple):
    """`name` "": a form of the statement itself."""

    name: str
    text: str
    node: Node


_TOKEN = re.compile(r"\[, \.\.\.\]|\.\.\.|'[^']*'|:=|@@|\w+|[^\w\s]")
_HEAD = re.compile(r"([a-z_]+):")


def read(text: str) -> list[Rule]:
    """The rules of a block; forms of the statement are apart by an empty line. Raises ValueError."""
    rules = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        head = _HEAD.match(paragraph)
        body = paragraph[head.end() :] if head else paragraph
        reader = _Reader(_TOKEN.findall(body), paragraph)
        rules.append(Rule(head[1] if head else "", paragraph, reader.whole()))
    return rules


class _Reader:
    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens, self.text, self.place = tokens, text, 0

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise ValueError(f"{expected or 'something'} expected at {token!r} in {self.text}")
        self.place += 1
        return token

    def whole(self) -> Node:
        node = self.choice()
        if self.next:
            raise ValueError(f"{self.next!r} closes nothing in {self.text}")
        return node

    def choice(self) -> Node:
        branches = [self.sequence()]
        while self.next == "|":
            self.take()
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def sequence(self) -> Node:
        items: list[Node] = []
        while self.next and self.next not in ("|", "]", "}"):
            token = self.take()
            if token in ("[, ...]", "..."):
                items.append(Repeat(_last(items), "," if token.startswith("[") else ""))
            elif token == "[":
                items.append(Optional(self.choice()))
                self.take("]")
            elif token == "{":
                items.append(self.choice())
                self.take("}")
            else:
                is_name = token[0].isalpha() and token.islower()
                items.append(Name(token) if is_name else Word(token))
        if not items:
            raise ValueError(f"an empty branch in {self.text}")
        return items[0] if len(items) == 1 else Sequence(tuple(items))


def _last(items: list[Node]) -> Node:
    """What is repeated, taken away: the last item, or all of its parentheses."""
    if items[-1] != Word(")"):
        return items.pop()
    start = len(items) - 1 - items[::-1].index(Word("("))
    group = Sequence(tuple(items[start:]))
    del items[start:]
    return group


# -- statements that use each branch ---------------------------------------------------------------

Samples = Mapping[str, str]


def sentences(rules: list[Rule], samples: Samples) -> list[str]:
    """Statements that together use each branch of each form. Each differs from the shortest in one
    branch. Raises KeyError for a placeholder without a sample."""
    known = {rule.name: rule.node for rule in rules if rule.name}
    writer = _Writer(known, samples)
    return [_joined(each) for rule in rules if not rule.name for each in writer.all_of(rule.node)]


def shortest(node: Node, samples: Samples) -> str:
    """The shortest text of a rule. Raises KeyError for a name without a sample."""
    return _Writer({}, samples).shortest(node)


def _joined(text: str) -> str:
    return re.sub(r"(@+|\.) | (?=[.,])", r"\1", " ".join(text.split()))


class _Writer:
    def __init__(self, known: dict[str, Node], samples: Samples) -> None:
        self.known, self.samples = known, samples
        self.used: set[str] = set()

    def shortest(self, node: Node) -> str:
        match node:
            case Word(text):
                return text
            case Name(text):
                rule = self.known.get(text)
                return self.shortest(rule) if rule is not None else self.samples[text]
            case Sequence(items):
                return " ".join(map(self.shortest, items))
            case Choice(items):
                return self.shortest(items[0])
            case Optional():
                return ""
            case Repeat(item, _):
                return self.shortest(item)

    def all_of(self, node: Node) -> Iterator[str]:
        match node:
            case Word():
                yield self.shortest(node)
            case Name(text):
                rule = self.known.get(text)
                if rule is None or text in self.used:  # its branches are used once
                    yield self.shortest(node)
                else:
                    self.used.add(text)
                    yield from self.all_of(rule)
            case Choice(items):
                for item in items:
                    yield from self.all_of(item)
            case Optional(item):
                yield ""
                yield from self.all_of(item)
            case Repeat(item, separator):
                yield from self.all_of(item)
                once = self.shortest(item)
                yield f"{once} {separator} {once}"
            case Sequence(items):
                short = list(map(self.shortest, items))
                yield " ".join(short)
                for place, item in enumerate(items):
                    for text in self.all_of(item):
                        if text != short[place]:
                            yield " ".join([*short[:place], text, *short[place + 1 :]])


# -- the diagram -----------------------------------------------------------------------------------

WIDTH = 700
"""Beyond it a sequence goes on in another line. Unit: px."""


def diagram(rule: Rule, href: Callable[[str], str] = lambda name: "") -> str:
    """The rule as SVG. `href`: where a name is explained, "" for nowhere."""
    drawn = railroad.Diagram(_drawn(rule.node, href, WIDTH), type="simple")
    out = StringIO()
    drawn.writeSvg(out.write)
    title = escape(f"Syntax diagram of {rule.name or 'the statement'}", quote=True)
    return out.getvalue().replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1).strip()


def _drawn(node: Node, href: Callable[[str], str], width: float) -> railroad.DiagramItem:
    match node:
        case Word(text):
            return railroad.Terminal(text)
        case Name(text):
            return railroad.NonTerminal(text, href=href(text) or None)
        case Choice(items):
            return _choice(0, [_drawn(item, href, width - 40) for item in items])
        case Optional(item):
            return _choice(1, [railroad.Skip(), _drawn(item, href, width - 40)])
        case Repeat(item, separator):
            return railroad.OneOrMore(
                _drawn(item, href, width - 40), railroad.Terminal(separator) if separator else None
            )
        case Sequence(items):
            return _wrapped([_drawn(item, href, width) for item in items], width)


def _choice(default: int, items: list[railroad.DiagramItem]) -> railroad.DiagramItem:
    """A choice that knows how far down it reaches. The library's forgets the height of a last branch
    of several lines, which is then cut off."""
    drawn = railroad.Choice(default, *items)
    reached = 0.0
    for place in range(default + 1, len(items)):
        above, item = items[place - 1], items[place]
        arcs = railroad.AR * (2 if place == default + 1 else 1)
        gap = item.up + railroad.VS + above.down + above.height
        reached += max(arcs, gap)
    last = items[-1]
    drawn.down = reached + last.height + last.down - items[default].height
    return drawn


def _wrapped(items: list[railroad.DiagramItem], width: float) -> railroad.DiagramItem:
    lines: list[list[railroad.DiagramItem]] = [[]]
    room = width
    for item in items:
        if lines[-1] and item.width > room:
            lines.append([])
            room = width
        lines[-1].append(item)
        room -= item.width + 20
    rows = [railroad.Sequence(*line) for line in lines]
    return rows[0] if len(rows) == 1 else railroad.Stack(*rows)

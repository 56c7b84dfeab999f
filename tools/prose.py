"""Check the prose and the names of Python files against "Plain English" in CONTRIBUTING.md.

    python tools/prose.py PATH...             findings, as file:line: rule: sentence
    python tools/prose.py --count PATH...     the number of findings of each package and rule
    python tools/prose.py --write PATH        store these numbers in tools/prose.json

Docstrings and comments are prose; names are checked where they are bound. Ignored: text in quotes or
backticks, tables and drawings (indented lines, lines with arrows or runs of spaces), and comments for
other tools. The check knows words, not the sense: a reader is still needed.

tests/test_tidy.py fails if a package has more findings of a rule than tools/prose.json allows.
"""

import ast
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ALLOWED = Path(__file__).with_name("prose.json")

RULES: dict[str, re.Pattern[str]] = {
    rule: re.compile(pattern, re.IGNORECASE)
    for rule, pattern in {
        # a noun instead of a clause: "who asked for it" is the submitter
        "clause": r"(^|[,;:.] |\b(?:by|for|of|to|from|than|and|or) )who(?:ever)? \w+"
        r"|^(?:what|whose|whom) (?!if\b)\w+[^?]*$",
        # a standard term instead of a private one
        "dialect": r"\b(?:anew|mend(?:s|ed)?|lest|thereof|in vain|twins?|lets? go|go(?:es)? along"
        r"|ma[dk]es? way|gone by)\b",
        # subject, verb, object
        "inversion": r"^(?:Of|Were|Had|Nor) \w+",
        # the limit itself instead of "there is none"
        "none": r"\b(?:is|are|was|were|be|has|have|with) none\b(?! of)|\bnone (?:such|more)\b"
        r"|\bare no (?:\w+ )?ones\b|\bis no (?:\w+ )?one\b",
        # a named quantity
        "quantity": r"\bso (?:many|much|few|long|often|far)\b(?! (?:that|as)\b)|\blikewise\b|\balike\b"
        r"|\bas (?:well|many|much)\b(?! as\b)",
        # the relation: next to, during, after, in the background
        "relation": r"\b(?:beside|behind)\b(?! (?:a |the )?(?:proxy|firewall|load balancer|flag)\b)",
        # values and modules do not speak, hear or stand
        "speech": r"\b(?:say(?:s|ing)|said|tell(?:s|ing)|told|asks|hears|heard|obey(?:s|ed))\b",
        "stands": r"\b(?:stands?|stood|standing)\b(?![- ]?(?:by|alone|in for)\b)",
    }.items()
}
LONGEST_SENTENCE, MOST_SEMICOLONS = 25, 1
SAYS_NOTHING = re.compile(
    r"(?:do it|likewise|the same|as above|see the module|as there|its own)\b[^.:]{0,24}[.:]?",
    re.IGNORECASE,
)
FILLERS = frozenset(
    "asked begun each found given gone heard held hidden kept known made marked meant met"
    " missed noted passed said seen shown stood taken told wanted".split()
)
_TABLE = re.compile(r"^\s{2,}|\S {2,}\S|->|-->|<-|^\s*[|+*]|^\S+\(.*\)\s*$")
_QUOTED = re.compile(r"`+[^`]*`+|\"[^\"]*\"|'[^' ]+'|\S+\.py\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"(])")
_FOR_TOOLS = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:|ruff|mypy|!)|#\s*--")


class Finding(NamedTuple):
    line: int
    rule: str
    text: str


def findings(source: str) -> list[Finding]:
    """The findings of one file, in the order of lines."""
    tree = ast.parse(source)
    matches = [match for line, text in _docstrings(tree) for match in _docstring(line, text)]
    matches += [match for line, text in _comments(source) for match in _prose(line, text)]
    matches += [
        Finding(line, "filler", name) for line, name in _bound_names(tree) if _is_filler(name)
    ]
    return sorted(matches)


def counts(files: Sequence[Path], root: Path) -> dict[str, dict[str, int]]:
    """package -> rule -> number of findings. The package is the path of the file's folder."""
    total: dict[str, Counter[str]] = {}
    for file in files:
        package = file.parent.relative_to(root).as_posix()
        total.setdefault(package, Counter()).update(
            finding.rule for finding in findings(file.read_text())
        )
    return {
        package: dict(sorted(rules.items())) for package, rules in sorted(total.items()) if rules
    }


def _is_filler(name: str) -> bool:
    return name.strip("_") in FILLERS


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text), also of the strings that describe attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            constant = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                lines = constant.value.expandtabs().splitlines() or [""]
                indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
                cut = min(indents, default=0)
                yield constant.lineno, "\n".join([lines[0], *(line[cut:] for line in lines[1:])])


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of comments; neighbouring lines are one text."""
    first, last, lines = 0, -1, list[str]()
    rows = iter(source.splitlines(keepends=True))
    for token in tokenize.generate_tokens(lambda: next(rows, "")):
        if token.type != tokenize.COMMENT or _FOR_TOOLS.match(token.string):
            continue
        line, is_alone = token.start[0], not token.line[: token.start[1]].strip()
        if not (lines and is_alone and line == last + 1):
            if lines:
                yield first, "\n".join(lines)
            first, lines = line, []
        lines.append(token.string.lstrip("#: "))
        last = line if is_alone else -1
    if lines:
        yield first, "\n".join(lines)


def _sentences(line: int, text: str) -> Iterator[tuple[int, str]]:
    paragraph, start = "", line
    for number, row in enumerate([*text.splitlines(), ""], line):
        if row.strip() and not _TABLE.search(_QUOTED.sub("x", row)):
            start = start if paragraph else number
            paragraph += row.strip() + " "
            continue
        for sentence in _SENTENCE_END.split(paragraph.strip()):
            if sentence:
                yield start, sentence
        paragraph = ""


def _prose(line: int, text: str) -> Iterator[Finding]:
    for start, sentence in _sentences(line, text):
        plain = _QUOTED.sub("x", sentence)
        for rule, pattern in RULES.items():
            if pattern.search(plain):
                yield Finding(start, rule, sentence)
        if len(re.findall(r"[A-Za-z][\w'-]*", plain)) > LONGEST_SENTENCE:
            yield Finding(start, "long", sentence)
        if plain.count(";") > MOST_SEMICOLONS:
            yield Finding(start, "semicolons", sentence)


def _docstring(line: int, text: str) -> Iterator[Finding]:
    yield from _prose(line, text)
    first = text.split("\n", 1)[0].strip()
    if SAYS_NOTHING.fullmatch(first):
        yield Finding(line, "empty", first)


def _bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def main(arguments: list[str]) -> int:
    options = {argument for argument in arguments if argument.startswith("--")}
    roots = [Path(argument) for argument in arguments if not argument.startswith("--")]
    if not roots or options - {"--count", "--write"}:
        print(__doc__)
        return 2
    for root in roots:
        files = [root] if root.is_file() else sorted(root.rglob("*.py"))
        if not options:
            for file in files:
                for line, rule, text in findings(file.read_text()):
                    print(f"{file}:{line}: {rule}: {text}")
            continue
        packages = counts(files, root)
        if "--write" in options:
            ALLOWED.write_text(json.dumps(packages, indent=1) + "\n")
            continue
        for package, rules in packages.items():
            shown = ", ".join(f"{rule} {number}" for rule, number in rules.items())
            print(f"{package:<32}{sum(rules.values()):>6}  {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

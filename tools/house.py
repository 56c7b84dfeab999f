"""The house in numbers: how large its rooms are, who serves whom, which circles there are.

    python tools/house.py [FOLDER]        FOLDER: a checkout, the current one by default

Circles count every import: those for types only and those inside functions too. A module with a
single importer beside it is one that exactly one other module imports, of the same folder.
"""

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

Graph = Mapping[str, set[str]]


def module_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(trees: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Who imports whom. A name taken from a module is an import of that module, and one of a
    package is an import of it only where the name is no module of it."""
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    names.add(whole if whole in trees else node.module)
        graph[module] = {name for name in names if name in trees and name != module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected groups of more than one module (Tarjan 1972), the largest first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in graph[module]:
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in graph:
        if module not in order:
            visit(module)
    return sorted(groups, key=len, reverse=True)


def single_importers(graph: Graph) -> list[tuple[str, str]]:
    """Modules that serve one module beside them: (module, its importer)."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        for target in targets:
            importers[target].add(module)
    return sorted(
        (module, next(iter(users)))
        for module, users in importers.items()
        if len(users) == 1 and next(iter(users)).rpartition(".")[0] == module.rpartition(".")[0]
    )


_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
COMPLEX = 20


def complexity(function: ast.AST) -> int:
    """Cyclomatic complexity, functions inside it not counted."""
    total, remaining = 1, list(ast.iter_child_nodes(function))
    while remaining:
        node = remaining.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        total += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        remaining += ast.iter_child_nodes(node)
    return total


def class_tests(tree: ast.AST, prefix: str) -> int:
    """Calls of isinstance with a class whose dotted name begins with the prefix."""
    return sum(
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "isinstance"
        and len(node.args) == 2
        and any(
            ast.unparse(part).startswith(prefix)
            for part in ast.walk(node.args[1])
            if isinstance(part, ast.Attribute | ast.Name)
        )
        for node in ast.walk(tree)
    )


def mutual_folders(graph: Graph) -> list[tuple[str, str]]:
    """Pairs of folders that import each other."""
    pairs = {
        (module.rpartition(".")[0], target.rpartition(".")[0])
        for module, targets in graph.items()
        for target in targets
    }
    return sorted((one, other) for one, other in pairs if one < other and (other, one) in pairs)


Name = tuple[str, str]  # a module, a name at its top


def defined_names(trees: Mapping[str, ast.Module]) -> list[Name]:
    """Functions, classes and constants at the top of modules. A decorator may register its
    function: a name with one is counted only if the decorator is harmless."""
    names = []
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                decorators = {ast.unparse(part).partition("(")[0] for part in node.decorator_list}
                if decorators <= HARMLESS:
                    names.append((module, node.name))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names += [
                    (module, part.id)
                    for target in targets
                    for part in ast.walk(target)
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
                ]
    return [(module, name) for module, name in names if not name.startswith("__")]


HARMLESS = {"cache", "lru_cache", "contextmanager", "dataclass", "final", "runtime_checkable"}
_DOTTED = re.compile(r"([\w.]+)[:.](\w+)")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def used_names(trees: Mapping[str, ast.AST], modules: Collection[str]) -> set[Name]:
    """Names that code loads, imports, takes from a module, or has in a string."""
    used: set[Name] = set()
    for module, tree in trees.items():
        aliases = dict(zip(modules, modules, strict=True))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                used.update((node.module, alias.name) for alias in node.names)
                for alias in node.names:
                    aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                aliases.update((alias.asname or alias.name, alias.name) for alias in node.names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                used.add((aliases.get(_dotted(node.value), ""), node.attr))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add((module, node.id))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(("", node.value))
                used.update(_DOTTED.findall(node.value))
    return used


def dead_names(trees: Mapping[str, ast.Module], others: Mapping[str, ast.AST]) -> list[Name]:
    """Names of modules that neither the modules nor other files name."""
    used = used_names({**trees, **others}, list(trees))
    return [
        (module, name)
        for module, name in defined_names(trees)
        if (module, name) not in used and ("", name) not in used
    ]


def quantile(values: Sequence[int], part: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def main(root: Path) -> None:
    sys.setrecursionlimit(10_000)
    source = root / "src"
    texts = {path: path.read_text() for path in sorted(source.rglob("*.py"))}
    trees = {module_of(path, source): ast.parse(text) for path, text in texts.items()}
    lines = [len(text.splitlines()) for text in texts.values()]
    full = [count for count in lines if count > 3]
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    graph = import_graph(trees)
    alone = single_importers(graph)
    sizes = dict(zip(trees, lines, strict=True))
    small = [pair for pair in alone if sizes[pair[0]] < 120]
    found = circles(graph)
    names = Counter(
        node.name
        for tree in trees.values()
        for node in getattr(tree, "body", [])
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    shared = sorted(name for name, count in names.items() if count > 1)
    said = [
        ast.get_docstring(node)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    short = sum(1 for text in said if text and len(text.split()) <= 4)
    any_lines = sum(
        len({n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "Any"})
        for tree in trees.values()
    )
    statements = sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for tree in trees.values()
        for node in ast.walk(tree)
    )
    complexities = sorted(
        (
            (complexity(node), f"{module}.{node.name}")
            for module, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )
    tangled = [pair for pair in complexities if pair[0] >= COMPLEX]
    parsers = [
        module
        for module, text in zip(trees, texts.values(), strict=True)
        if "from sqlglot import" in text or "import sqlglot" in text
    ]
    tests = sum(class_tests(tree, "exp.") for tree in trees.values())
    mutual = mutual_folders(graph)
    middle, high = int(statistics.median(full)), quantile(full, 0.9)
    print(f"files                                {len(lines)} ({len(full)} with more than 3 lines)")
    print(f"lines                                {sum(lines)}")
    print(f"lines a file, p50 / p90 / most       {middle} / {high} / {max(full)}")
    middle, high = int(statistics.median(functions)), quantile(functions, 0.9)
    print(f"functions                            {len(functions)}")
    print(f"lines a function, p50 / p90 / most   {middle} / {high} / {max(functions)}")
    print(f"single importer beside them          {len(alone)} ({len(small)} under 120 lines)")
    print(f"circles (modules in them)            {len(found)} ({sum(map(len, found))})")
    print(f"lines with Any                       {any_lines}")
    print(f"class names that stand twice         {len(shared)}: {', '.join(shared)}")
    print(f"docstrings of four words or fewer    {short}")
    print(f"statements, docstrings not counted   {statements}")
    print(f"functions of complexity {COMPLEX} or more    {len(tangled)}, most {complexities[0][0]}")
    print(f"folders that import each other       {len(mutual)}")
    print(f"files that import sqlglot            {len(parsers)}")
    print(f"isinstance of sqlglot's classes      {tests}")
    for pair in mutual:
        print("folders:", *(name.removeprefix("exuvia.") for name in pair))
    for group in found:
        print("circle:", " ".join(name.removeprefix("exuvia.") for name in group))
    if "-v" in sys.argv:
        for count, name in tangled:
            print(f"complexity: {count:3} {name}")
        for module, user in alone:
            print(f"alone: {sizes[module]:4} {module} <- {user.rpartition('.')[2]}")


if __name__ == "__main__":
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    main(Path(folders[0] if folders else "."))

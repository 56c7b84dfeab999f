"""The house rules, counted. A rule nobody checks is not a rule.

No unfinished marks, no banned calls, no dead modules or names, no skipped tests. An exception is
listed here with its reason.
"""

import ast
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from exuvia.base import mysql_errors
from exuvia.base.mysql_errors import MySQLError

ROOT = Path(__file__).resolve().parents[1]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BANNED = {
    "time.time": "pass a Clock in",
    "time.sleep": "wait on a channel or an event, bounded",
    "random.random": "pass a Random in",
    "datetime.datetime.now": "pass a Clock in",
    "tempfile.mkdtemp": "use private_files.scratch_folder",
    "tempfile.TemporaryDirectory": "use private_files.scratch_folder",
    "os._exit": "end the loop that failed",
    "print": "log, or return the text",
    **dict.fromkeys(
        (
            "msgspec.convert",
            "msgspec.json.Decoder",
            "msgspec.json.decode",
            "msgspec.msgpack.Decoder",
            "msgspec.msgpack.decode",
        ),
        "use base/decoding.py, which is safe in threads",
    ),
}
BANNED_MAY: dict[str, str] = {
    "src/exuvia/base/decoding.py:msgspec.convert": "one class at a time",
    "src/exuvia/base/decoding.py:msgspec.json.Decoder": "one class at a time",
    "src/exuvia/base/decoding.py:msgspec.msgpack.Decoder": "one class at a time",
    "src/exuvia/base/private_files.py:tempfile.mkdtemp": "scratch_folder",
    "src/exuvia/cli/demo/clients.py:time.time": "a client program of its own, not logic",
    "src/exuvia/cli/demo/story.py:time.time": "compares its own clock with its clients'",
    "src/exuvia/node/supervise.py:os._exit": "a process told to stop while a thread hangs",
}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All of its tree, which takes several seconds to read and walk for all files."""
    return tuple(ast.walk(tree_of(path)))


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_logic_calls_no_clock_and_sleeps_nowhere() -> None:
    found = []
    for path in SOURCE:
        nodes = nodes_of(path)
        modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        for node in nodes:
            if isinstance(node, ast.Call) and dotted(node.func) in BANNED:
                called = dotted(node.func)
                if "." in called and called.split(".")[0] not in modules:
                    continue  # a value of that name, passed in
                place = f"{relative(path)}:{dotted(node.func)}"
                if place not in BANNED_MAY:
                    found.append(f"{place}:{node.lineno} ({BANNED[dotted(node.func)]})")
    assert not found


SLEEPS_MAY = {
    "tests/support/node_processes.py": "`until`, the one wait for a condition, looks now and then",
    "tests/support/kv_children.py": "a process that is slow is what it plays",
    "tests/support/relay.py": "a link that is slow is what it plays",
    "tests/support/spark.py": "a driver's own pace, as the owner steps",
    "tests/kv/test_lmdb_processes.py": "a pause between commits whose wake-ups are measured singly",
    "tests/kv/test_lmdb_groups.py": "an interrupt is sent again until it meets its wait",
    "tests/spark/test_spark_fill.py": "what moves between two looks",
    "tests/wire/test_hostile_statements.py": "statements are under way for a while",
    "tests/expressions/record_answers.py": "a program that waits for another server",
}


def test_tests_wait_by_condition_and_do_not_sleep() -> None:
    found = {
        relative(path)
        for path in TESTS
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and dotted(node.func) in ("time.sleep", "sleep")
    }
    assert found == set(SLEEPS_MAY)


def test_each_setting_of_ones_own_is_read_somewhere() -> None:
    """A variable that can be set and changes nothing is a lie."""
    defining = "src/exuvia/catalog/sysvar/variables.py"
    own = set(re.findall(r'"(exuvia_\w+)"', text_of(ROOT / defining)))
    others = "".join(text_of(path) for path in SOURCE if relative(path) != defining)
    assert {name for name in own if f'"{name}"' not in others} == set()


PRIVATE_MAY = {
    "_built": "the table changes between two looks of one statement",
    # a planted bug: the rule that is taken away has no switch
    "_find": "planted: a parent that is not fenced",
    "_find_blocker": "planted: what a job waits for, counted",
    "_move_epoch": "planted: an undo keeps the epoch",
    "_changed": "planted: a row that is not rewritten; how much is remembered of changed keys",
    "_prepared": "planted: a rewrite that prepares nothing",
    "_stepped_back": "a JVM as if none of its waves had ended",
    "_facts": "planted: what a table's facts are",
    "_shift": "planted: counts of a whole",
    "_one": "planted: an analysis that fails",
    "_place": "planted: the table changes between two looks",
    "_begin_statement": "planted: an interrupt at the moment a statement begins",
    "_apply": "noted: which writes are of loops, and of no client",
    "_tables": "planted: a newer layout, met in the middle of a transaction",
    "_versions": "planted: a chain of versions is shortened while it is read",
    # room that has a bound is not seen from outside
    "_changed_before": "how much is remembered of changed keys",
    "_heap": "how much longer the list is than its elements",
    "_columns": "what is kept of tables that are gone",
    "_recent": "what is kept of tables that are gone",
    # a race of two instructions
    "_Ticket": "which commits share a group, and an interrupt between two instructions",
    "_busy": "the same",
    "_join": "the same",
    "_follow": "the same",
    "_queue": "the same",
    "_table": "what a process of the time before shared locks reads of the table",
    "_number": "the same",
    "_id": "the same",
    "_seat": "that another process waits in the table",
    "_jdf": "rows that Spark was given: its Python API does not tell",
    "_rescore": "the due time of a score is years of a test's clock",
}
OPEN_NAMES = {"_replace", "_asdict", "_fields", "_make", "_exit"}


def private_names(path: Path) -> Iterator[tuple[int, str]]:
    """Private members of others that are named: (line, name)."""
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            own |= isinstance(node.value, ast.Call) and dotted(node.value.func) == "super"
            if not own:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith(("setattr", "replaced")):
            texts = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
            yield from ((node.lineno, str(each).rpartition(".")[2]) for each in texts)


def test_tests_name_no_private_members_of_others() -> None:
    found = [
        (f"{relative(path)}:{line} {name}", name)
        for path in TESTS
        if path.name != "test_tidy.py"
        for line, name in private_names(path)
        if name.startswith("_") and not name.startswith("__") and name not in OPEN_NAMES
    ]
    assert [place for place, name in found if name not in PRIVATE_MAY] == []
    assert set(PRIVATE_MAY) <= {name for _, name in found}, "named in the list, and by no test"
    assert len(found) < 50


def test_nothing_is_left_unfinished() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError|HACK)\b")
    found = [
        f"{relative(p)}:{n}"
        for p in [*SOURCE, *TESTS]
        if p.name != "test_tidy.py"
        for n, line in enumerate(text_of(p).splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


def test_no_test_is_skipped() -> None:
    marks = re.compile(r"mark\.(skip|xfail)|pytest\.(skip|importorskip|xfail)\(")
    found = [relative(p) for p in TESTS if p.name != "test_tidy.py" and marks.search(text_of(p))]
    assert found == ["tests/conftest.py"]  # hosts that are apart, where they are not allowed


def test_what_other_packages_import_says_what_it_does() -> None:
    """Shapes, units, errors, source. What only its own package uses may do without."""
    imported = set()
    for path in SOURCE:
        own = relative(path).removeprefix("src/").rpartition("/")[0].replace("/", ".")
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[0] != own:
                imported.update((node.module, alias.name) for alias in node.names)
    silent = []
    for path in SOURCE:
        tree = tree_of(path)
        module = relative(path).removeprefix("src/").removesuffix(".py").replace("/", ".")
        if not ast.get_docstring(tree) and text_of(path).strip():
            silent.append(f"{module}: module")
        for node in tree.body:
            is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_named and (module, node.name) in imported and not ast.get_docstring(node):
                silent.append(f"{module}:{node.name}")
    assert len(imported) > 500
    assert not silent


MENTIONED = re.compile(r"(?<![\w/.])((?:\w+/)*[\w*]+\.py)\b")


def test_comments_name_only_modules_that_exist() -> None:
    """From the folder it is in, from a folder above it, or from the root of the project."""
    names = {path.name for path in [*SOURCE, *TESTS]}
    missing, seen = [], 0
    for path in SOURCE:
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for mentioned in MENTIONED.findall(line):
                seen += 1
                above = [folder / mentioned for folder in path.parents if ROOT in folder.parents]
                is_there = any(place.exists() for place in [*above, ROOT / mentioned])
                if not is_there and ("/" in mentioned or mentioned not in names):
                    missing.append(f"{relative(path)}:{number} {mentioned}")
    assert seen > 200
    assert not missing


SAYS_NOTHING = re.compile(r"(\d{4}(, \d{4})*\.|See [\w./]+|As (the|its|below)\b.{0,20})")


def test_no_docstring_says_nothing() -> None:
    """An error's number alone (its name stands below), or that it is as elsewhere."""
    found = []
    for path in SOURCE:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef):
                said = ast.get_docstring(node) or ""
                if SAYS_NOTHING.fullmatch(said):
                    found.append(f"{relative(path)}:{node.lineno} {said}")
    assert not found


def test_no_package_gains_prose_that_needs_a_translator() -> None:
    prose = tool("prose")
    allowed = json.loads((ROOT / "tools" / "prose.json").read_text())
    worse = []
    for package, rules in prose.counts(SOURCE, ROOT / "src").items():
        for rule, number in rules.items():
            most = allowed.get(package, {}).get(rule, 0)
            if number > most:
                worse.append(f"{package}: {rule} {number}, {most} allowed")
    assert not worse, "see `python tools/prose.py src`"


PROSE = '''
"""Of a row, what it says: likewise `who asks` is a quote."""

# A cell stands behind the others.
def each(found: int) -> None:
    """See the module."""
    kept = found  # noqa: likewise
    row = kept
    """A table:

        who   stands here
    """
'''


def test_findings_of_prose() -> None:
    findings = tool("prose").findings(PROSE.lstrip())
    assert [(finding.line, finding.rule) for finding in findings] == [
        (1, "inversion"),
        (1, "quantity"),
        (1, "speech"),
        (3, "relation"),
        (3, "stands"),
        (4, "filler"),
        (4, "filler"),
        (5, "empty"),
        (6, "filler"),
    ]


def imported_modules() -> set[str]:
    found = set()
    for path in [*SOURCE, *TESTS, *sorted((ROOT / "bench").rglob("*.py"))]:
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_no_module_is_dead() -> None:
    used = imported_modules() | {"exuvia.cli.main", "exuvia.pipeline.class_archive"}  # commands
    used |= {"exuvia.alembic", "exuvia.sqlalchemy"}  # entry points in pyproject.toml
    text = "\n".join(text_of(p) for p in SOURCE)
    dead = []
    for path in SOURCE:
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if path.name == "__init__.py" or module.startswith("pyspark_exuvia"):
            continue
        if module not in used and f'"{module}"' not in text:
            dead.append(module)
    assert not dead


UNNAMED = {
    ("exuvia.alembic", "setup"): "Alembic calls it",
    ("exuvia.sqlalchemy", "ExuviaPyMySQLDialect"): "an entry point",
    ("exuvia.sqlalchemy", "ExuviaMySQLdbDialect"): "an entry point",
}


def test_no_name_is_dead() -> None:
    """Functions, classes and constants that neither the program nor its tests and tools name."""
    others = [*TESTS, *(ROOT / "bench").rglob("*.py"), *(ROOT / "tools").glob("*.py")]
    trees = {relative(path): tree_of(path) for path in others if path != Path(__file__)}
    assert sorted(tool("house").dead_names(modules(), trees)) == sorted(UNNAMED)


def test_a_dead_name_would_be_found() -> None:
    text = "A = 1\nB = A\ndef f(): return B\n@cache\ndef g(): ...\n@command\ndef h(): ..."
    user = "from m import f as x\nimport m as n\nn.C\n'm:g'"
    trees = {"m": ast.parse(f"{text}\nclass C: ...")}
    names = tool("house").dead_names
    assert names(trees, {}) == [("m", "f"), ("m", "g"), ("m", "C")]
    assert names(trees, {"u": ast.parse(user)}) == []
    assert names({"m": ast.parse("def f(): ...")}, {"u": ast.parse("f()")}) == [("m", "f")]


@cache
def tool(name: str) -> Any:
    """The module tools/<name>.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def modules() -> dict[str, ast.Module]:
    module_of = tool("house").module_of
    return {module_of(path, ROOT / "src"): tree_of(path) for path in SOURCE}


@cache
def import_graph() -> dict[str, set[str]]:
    found: dict[str, set[str]] = tool("house").import_graph(modules())
    return found


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """The trees take 200 MB; nobody needs them behind these tests."""
    yield
    for each in (text_of, tree_of, nodes_of, modules, import_graph):
        each.cache_clear()


def test_modules_import_each_other_in_no_circle() -> None:
    """Imports for types only and those inside functions count."""
    trees = modules()
    assert len(trees) > 300
    assert tool("house").circles(import_graph()) == []


def test_a_circle_would_be_seen() -> None:
    trees = {
        "a.b": ast.parse("def f():\n    from a import c"),
        "a.c": ast.parse("if TYPE_CHECKING:\n    from a.b import f"),
        "a.d": ast.parse("import a.b"),
    }
    assert tool("house").circles(tool("house").import_graph(trees)) == [["a.b", "a.c"]]


def test_no_two_classes_share_a_name() -> None:
    """One word per thing. Private classes and those inside functions are their module's affair."""
    places: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert len(places) > 500
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_the_glossary_has_each_term_once_and_in_order() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:]
    assert len(terms) > 40
    assert terms == sorted(set(terms))


SHREDS = 24


_MAKERS = {"makedirs", "mkdir", "write_text", "write_bytes"}
MAKERS_MAY = {
    "src/exuvia/base/private_files.py": "the one place",
    "src/exuvia/pipeline/class_archive.py": "classes of Spark's, which every account may read",
    "src/exuvia/cli/main.py": "a picture of what a simulation measured",
    "src/exuvia/cli/client.py": "a place in the feed",
    "src/exuvia/cli/changes.py": "a place in the feed",
    "src/exuvia/cli/demo/story.py": "a log in a temporary folder of its own",
}
_WRITING = re.compile("[rwxab+t]*[wxa+][b+t]*")


def _makes_file(node: ast.AST) -> bool:
    """Whether a call makes a folder or a file that keeps to the umask."""
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func)
    last = name.rpartition(".")[2]
    if name == "os.open":
        return "O_CREAT" in ast.unparse(node)
    if last != "open" or any(each.arg == "opener" for each in node.keywords):
        return last in _MAKERS
    modes = [*node.args[:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return any(
        isinstance(each, ast.Constant) and _WRITING.fullmatch(str(each.value)) for each in modes
    )


def test_files_are_made_private() -> None:
    found = {relative(path) for path in SOURCE for node in nodes_of(path) if _makes_file(node)}
    assert found == set(MAKERS_MAY)


def test_few_small_modules_serve_one_beside_them() -> None:
    """A concept lies in one file: a small module that only its neighbour imports is part of it."""
    house = tool("house")
    alone = [module for module, _ in house.single_importers(import_graph())]
    sizes = {house.module_of(p, ROOT / "src"): len(text_of(p).splitlines()) for p in SOURCE}
    assert len([module for module in alone if sizes[module] < 120]) <= SHREDS


ACTIONS_MAY = {"src/exuvia/ddl/job.py"}  # the codes and their words


def compared_codes(nodes: Iterable[ast.AST]) -> list[int]:
    """Lines where an ActionCode is compared, or stands in a table to look one up in. That it is
    handed to whoever makes a job is none of it."""
    tables = (ast.Compare, ast.Set, ast.Tuple, ast.List, ast.MatchValue)
    found = set()
    for node in nodes:
        looked: list[ast.AST] = []
        if isinstance(node, ast.Dict):
            looked = [key for key in node.keys if key is not None]
        elif isinstance(node, tables):
            looked = list(ast.iter_child_nodes(node))
        for each in looked:
            if isinstance(each, ast.Attribute) and dotted(each).startswith("ActionCode."):
                found.add(each.lineno)
    return sorted(found)


def test_only_actions_know_which_action_they_are() -> None:
    """A flag of the action (ddl/action.py) says what is true of it: else each new one must be found
    in every list of codes."""
    found = []
    for path in SOURCE:
        name = relative(path)
        if name in ACTIONS_MAY or name.startswith("src/exuvia/ddl/actions/"):
            continue
        found += [f"{name}:{line}" for line in compared_codes(nodes_of(path))]
    assert not found


ACTS = {"submitter", "submit_nowait", "commit", "session", "services", "settings", "wait"}


def test_what_changes_the_schema_returns_and_does_nothing() -> None:
    """sql/schema comes to a Change; the session submits it, EXPLAIN prints it. Only its reader
    looks at the session."""
    found = []
    for path in sorted((ROOT / "src/exuvia/sql/schema").glob("*.py")):
        readers = [
            n for n in nodes_of(path) if isinstance(n, ast.ClassDef) and n.name == "SchemaReader"
        ]
        may = {id(n) for reader in readers for n in ast.walk(reader)}
        found += [
            f"{relative(path)}:{node.lineno} .{node.attr}"
            for node in nodes_of(path)
            if isinstance(node, ast.Attribute) and node.attr in ACTS and id(node) not in may
        ]
    assert not found


HOLDS = {
    "src/exuvia/sim/session.py": "a simulated client's transaction lives over many steps",
    "src/exuvia/sim/growth.py": "likewise, one that a schema change has to wait for",
    "src/exuvia/sim/plants.py": "a planted fault: a part of it is committed apart",
}


def test_transactions_are_read_or_transact() -> None:
    """Above kv nobody begins and ends a transaction of the store by hand, nor retries one; who
    holds one over many calls is listed."""
    found, held = [], set()
    for path in SOURCE:
        place = relative(path)
        if place.startswith("src/exuvia/kv/"):
            continue
        for node in nodes_of(path):
            called = dotted(node.func) if isinstance(node, ast.Call) else ""
            if re.search(r"(store|shared|memory)\.begin$", called):
                held.add(place)
                if place not in HOLDS:
                    found.append(f"{place}:{node.lineno} {called}")
    assert not found, "use store.read() or store.transact(work): kv/transaction.py"
    assert held == set(HOLDS)


def test_only_kv_knows_what_precedes_a_payload() -> None:
    """Readers step over as many bytes as the snapshot says, so another engine may lay values out in
    its own way."""
    of_kv = {"STAMP_BYTES", "stamp_of", "StampedValues"}
    found = [
        f"{relative(path)}: {node.id}"
        for path in SOURCE
        if "src/exuvia/kv/" not in relative(path)
        for node in nodes_of(path)
        if isinstance(node, ast.Name) and node.id in of_kv
    ]
    assert found == ["src/exuvia/pipeline/checkpoint.py: StampedValues"], "an empty store's"


def is_number(node: ast.expr) -> bool:
    """An error's number, or a tuple or set that has one. Numbers below 1000 are counts."""
    if isinstance(node, ast.Tuple | ast.Set):
        return any(map(is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 1000


def numbered_errors(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """Where an error is raised, noted or compared by its number."""
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            called = dotted(node.func).rpartition(".")[2]
            if called in ("Refused", "refuse", "Note", "note", "warn"):
                first = node.args[1:2] if called == "Note" else node.args[:1]
                if any(isinstance(n, ast.Constant) and type(n.value) is int for n in first):
                    found.append(node)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_code = any(isinstance(n, ast.Attribute) and n.attr == "code" for n in sides)
            if is_code and any(map(is_number, sides)):
                found.append(node)
    return found


def test_errors_are_raised_and_compared_by_name() -> None:
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCE
        for node in numbered_errors(nodes_of(path))
    ]
    assert not found, "give it a name in base/mysql_errors.py"


ERRORS = {n: each for n, each in vars(mysql_errors).items() if isinstance(each, MySQLError)}


def test_each_error_stands_once_in_the_table_and_in_the_order_of_codes() -> None:
    tree = ast.parse((ROOT / "src/exuvia/base/mysql_errors.py").read_text())
    assigned = [n.targets[0] for n in tree.body if isinstance(n, ast.Assign)]
    assert [each.id for each in assigned if isinstance(each, ast.Name)] == list(ERRORS)
    codes = [each.code for each in ERRORS.values()]
    assert codes == sorted(set(codes))


def test_an_error_is_given_what_its_text_names() -> None:
    wrong, used = [], set()
    for path in SOURCE:
        for node in nodes_of(path):
            used.update([node.id] if isinstance(node, ast.Name) and node.id in ERRORS else [])
            if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
                continue
            given = [node.func, *node.args]
            if dotted(node.func) == "env.warn":
                given = node.args
            name = dotted(given[0])
            if name in ERRORS and len(given) - 1 != ERRORS[name].text.count("%s"):
                wrong.append(f"{relative(path)}:{node.lineno} {name}")
    assert not wrong
    assert not ERRORS.keys() - used, "an error that nobody raises"


DOCUMENTS = ("README.md", "CHANGELOG.md", "docs/architecture.md", "LICENSE")
NAMED = re.compile(r"`((?:src|tests|bench|docs|tools)/[\w./-]+\.\w+)`")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_documents_a_newcomer_opens_exist(document: str) -> None:
    assert (ROOT / document).read_text().strip()


def test_documents_name_only_files_that_exist() -> None:
    missing = []
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for path in NAMED.findall(document.read_text()):
            if not (ROOT / path).exists():
                missing.append(f"{relative(document)} -> {path}")
    assert not missing

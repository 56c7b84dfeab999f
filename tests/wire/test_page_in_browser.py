"""The page as a browser draws it: in two palettes, from a phone to a wall, by keyboard."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest

from support.browser import open_browser
from support.few import one_in
from support.node_processes import NodeProcess, until

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=alert(1)>"
PHONE, DESK, WALL = (360, 780), (1440, 900), (3840, 2160)

# Of every text that is seen: its contrast with what is behind it (WCAG 2, 1.4.3)
CONTRASTS = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if ((numbers(colour)[3] ?? 1) === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const seen = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (seen.nextNode()) {
    const element = seen.currentNode.parentElement;
    if (!seen.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), seen.currentNode.data.trim()]);
  }
  return found;
}"""

# Links of the menu and keys of the chart that are not whole in the window, and the caption's lines
CUT_OFF = """() => {
  const whole = (element, place) => {
    const at = element.getBoundingClientRect(), room = place.getBoundingClientRect();
    return at.left >= room.left - 1 && at.right <= room.right + 1 && at.right <= innerWidth;
  };
  const cut = (query, place) => Array.from(document.querySelectorAll(query))
    .filter((each) => !whole(each, document.querySelector(place))).map((each) => each.textContent);
  const caption = document.querySelector("section figcaption");
  const line = caption.firstElementChild.getBoundingClientRect().height;
  const top = parseFloat(getComputedStyle(caption).paddingTop);
  return {
    links: cut("nav a", "nav"), keys: cut("figcaption .key", "figcaption"),
    lines: Math.round((caption.getBoundingClientRect().height - top) / line),
  };
}"""

# From when all jobs have come to when they are on the screen, as `window.painted_ms`; how many
# handlers of events there are, as `window.handlers`
PAINTED = """(() => {
  window.handlers = 0;
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (...given) {
    window.handlers++;
    add.apply(this, given);
  };
  const listen = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (name, then) {
    listen.call(this, name, (event) => {
      const began = performance.now();
      then(event);
      if (name !== "all") return;
      requestAnimationFrame(() => {
        const next = new MessageChannel();
        next.port1.onmessage = () => { window.painted_ms ??= performance.now() - began; };
        next.port2.postMessage(0);
      });
    });
  };
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@contextmanager
def opened(
    browser: Any,
    node: NodeProcess,
    size: tuple[int, int] = DESK,
    script: str = "",
    **options: Any,
) -> Iterator[Any]:
    """A tab that has been told something; nothing in it may fail or be refused. `script` runs in
    it before the page's own."""
    troubles: list[str] = []
    viewport = {"width": size[0], "height": size[1]}
    with closing(browser.new_context(viewport=viewport, **options)) as context:
        tab = context.new_page()
        tab.on("console", lambda message: troubles.append(message.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("dialog", lambda dialog: troubles.append(dialog.message))
        if script:
            tab.add_init_script(script)
        tab.goto(f"http://127.0.0.1:{node.status_port}/")
        tab.wait_for_selector("#link.live")
        tab.wait_for_selector("#nodes-rows tr")
        tab.wait_for_selector("#history-rows tr")
        yield tab
        assert troubles == []


def filtered(tab: Any, prefix: str) -> None:
    """Only tables with that prefix are listed."""
    tab.focus("#table-name")
    asked = re.compile(re.escape(f"/page/tables?{urlencode({'name': prefix})}&"))
    with tab.expect_response(asked):  # those for its first letters may list the same tables
        tab.keyboard.type(prefix)
    names = tab.locator("#table-found button")
    until(lambda: (found := names.all_inner_texts()) and all(x.startswith(prefix) for x in found))


@contextmanager
def held(node: NodeProcess, *statements: str) -> Iterator[None]:
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute("SET exuvia_ddl_async = ON, exuvia_ddl_hold = 'start'")
        for each in statements:
            cursor.execute(each)
        yield
        cursor.execute("ADMIN SHOW DDL JOBS 0")
        jobs = ", ".join(str(row[0]) for row in cursor.fetchall())
        cursor.execute(f"ADMIN CANCEL DDL JOBS {jobs}")
    until(lambda: node.status()["jobs_unfinished"] == 0)


@pytest.fixture(scope="module", autouse=True)
def _tables(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client:
        client.query("CREATE DATABASE seen")
        client.query(f"CREATE TABLE seen.`{EVIL}` (a INT)")
        client.query("CREATE TABLE seen.orders (id INT PRIMARY KEY, buyer INT)")
        client.query("ALTER TABLE seen.orders ADD INDEX by_buyer (buyer)")


@pytest.mark.parametrize(
    ("size", "scheme"), one_in(5, product((PHONE, DESK, WALL), ("dark", "light")))
)
def test_it_fits_and_can_be_read(
    browser: Any, node: NodeProcess, size: tuple[int, int], scheme: str
) -> None:
    with (
        held(node, "ALTER TABLE seen.orders ADD INDEX (id, buyer)"),
        opened(browser, node, size, color_scheme=scheme) as tab,
    ):
        tab.wait_for_selector("#jobs-rows .path li[aria-current=step]")
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        found = tab.evaluate(CONTRASTS)
        assert len(found) > 60
        assert [text for ratio, text in found if ratio < 4.5] == []
        cut = tab.evaluate(CUT_OFF)
        assert cut == {"links": [], "keys": [], "lines": 1}


def test_a_job_is_drawn_where_it_stands(browser: Any, node: NodeProcess) -> None:
    with opened(browser, node) as tab:
        with held(node, "ALTER TABLE seen.orders ADD INDEX (id)"):
            tab.wait_for_selector("#jobs-rows tr")
            path = tab.locator("#jobs-rows .path li").all_inner_texts()
            assert path == ["none", "delete only", "write only", "write reorganization", "public"]
            assert tab.locator("#jobs-rows [aria-current=step]").inner_text() == "none"
            row = tab.locator("#jobs-rows tr").inner_text()
            assert "seen.orders" in row and "held" in row and "root@" in row
            tab.fill("#jobs-filter", "nothing like it")
            assert tab.locator("#jobs-rows tr").count() == 0
            tab.fill("#jobs-filter", "ADD index held")
            assert tab.locator("#jobs-rows tr").count() == 1
        until(lambda: tab.evaluate("!document.querySelector('#jobs-rows tr')"))
        until(
            lambda: tab.evaluate(
                "document.querySelector('#history-rows').innerText.includes('cancel')"
            )
        )


def test_a_name_that_holds_html_is_drawn_as_a_name(browser: Any, node: NodeProcess) -> None:
    with opened(browser, node) as tab:
        filtered(tab, "seen.<img")
        tab.click("#table-found button")
        until(lambda: tab.evaluate("document.querySelector('#table-create').textContent"))
        assert EVIL in tab.locator("#table-create").inner_text()
        assert EVIL in tab.locator("#history-rows").inner_text()
        assert tab.evaluate("document.images.length") == 0


def test_who_looks_for_a_table_goes_on_to_the_next_page(browser: Any, node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client:
        client.query("CREATE DATABASE leaves")
        for n in range(60):
            client.query(f"CREATE TABLE leaves.leaf{n:02} (a INT)")
    with opened(browser, node) as tab:
        filtered(tab, "leaves.leaf")
        tab.wait_for_selector("#table-more")
        assert tab.locator("#table-found button").count() == 50
        tab.focus("#table-more")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#table-more", state="hidden")
        names = tab.locator("#table-found button").all_inner_texts()
        assert names == [f"leaves.leaf{n:02}" for n in range(60)]
        assert tab.evaluate("document.activeElement.textContent") == "leaves.leaf50"


def test_tables_are_listed_before_one_filters(browser: Any, node: NodeProcess) -> None:
    """Those of the system come with their prefix alone."""
    with opened(browser, node) as tab:
        tab.wait_for_selector("#table-found button")
        names = tab.locator("#table-found button").all_inner_texts()
        assert names and not [each for each in names if each.startswith("mysql.")]
        tab.fill("#table-name", "mysql.user")
        until(lambda: tab.locator("#table-found").inner_text() == "mysql.user")
        tab.fill("#table-name", "nothing.like")
        until(lambda: "No table" in tab.locator("#table-found").inner_text())
        tab.fill("#table-name", "")
        until(lambda: tab.locator("#table-found button").all_inner_texts() == names)


def test_a_new_table_is_listed_by_itself(browser: Any, node: NodeProcess) -> None:
    with opened(browser, node) as tab, new_table(tab, node, "a0a"):
        pass


@contextmanager
def new_table(tab: Any, node: NodeProcess, database: str) -> Iterator[None]:
    """A table that the page must list at the end of the block, and its job in the history.

    The page lists 50 tables: `database` must come before those of all other tests."""
    names = tab.locator("#table-found")
    names.locator("button").first.wait_for()
    with node.connect(autocommit=True) as client:
        client.query(f"CREATE DATABASE {database}")
        client.query(f"CREATE TABLE {database}.first (a INT)")
    yield
    history = tab.locator("#history-rows")
    for seen in (names, history):
        until(
            lambda seen=seen: f"{database}.first" in seen.inner_text(),
            about=lambda: (
                f"the page shows {names.inner_text()}\n{history.inner_text()}\n"
                f"{tab.inner_text('#link')}; the node lists "
                f"{node.get('/page/tables?name=&database=&table=')}"
            ),
        )


@contextmanager
def failing(tab: Any, path: str, count: int) -> Iterator[list[str]]:
    """The next requests for a path fail, as when their connection breaks: those that did."""
    failed: list[str] = []

    def answer(route: Any) -> None:
        if len(failed) < count:
            failed.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    tab.route(path, answer)
    yield failed
    until(lambda: tab.evaluate("1") and len(failed) == count)
    tab.unroute(path)


def test_lists_are_requested_again_after_an_error(browser: Any, node: NodeProcess) -> None:
    """A list stayed as it was until the next change of a table: the page noted the schema version
    although its request had failed."""
    with closing(browser.new_context()) as context:
        tab = context.new_page()
        tab.goto(f"http://127.0.0.1:{node.status_port}/")
        tab.wait_for_selector("#history-rows tr")
        with (
            failing(tab, "**/page/tables?*", 2),
            failing(tab, "**/page/history", 2),
            new_table(tab, node, "a0b"),
        ):
            pass
        with failing(tab, "**/page/tables?*", 1):
            tab.fill("#table-name", "a0b.")
            until(lambda: tab.locator("#table-found").inner_text() == "a0b.first")


def test_a_list_with_the_focus_is_refreshed_when_it_loses_it(
    browser: Any, node: NodeProcess
) -> None:
    with opened(browser, node) as tab:
        tab.wait_for_selector("#table-found button")
        tab.focus("#table-found button")
        with new_table(tab, node, "a0c"):
            until(lambda: "a0c.first" in tab.locator("#history-rows").inner_text())
            assert "a0c.first" not in tab.locator("#table-found").inner_text()
            tab.focus("#table-name")


def test_it_is_used_without_a_mouse(browser: Any, node: NodeProcess) -> None:
    with opened(browser, node, reduced_motion="reduce") as tab:
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.className") == "skip"
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.id") == "main"
        filtered(tab, "seen.orders")
        tab.focus("#table-name")
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        until(lambda: tab.evaluate("document.activeElement.id == 'table-heading'"))
        tab.wait_for_selector("#table-jobs tr")
        assert "KEY `by_buyer` (`buyer`)" in tab.locator("#table-create").inner_text()
        jobs = tab.locator("#table-jobs").inner_text()
        assert "add index" in jobs and re.search(r"write reorganization \d+(\.\d)? m?s", jobs), jobs


def test_where_events_do_not_come_it_asks(browser: Any, node: NodeProcess) -> None:
    with closing(browser.new_context()) as context:
        tab = context.new_page()
        tab.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
        tab.goto(f"http://127.0.0.1:{node.status_port}/")
        tab.wait_for_selector("#link.live")
        assert tab.locator("#link").inner_text() == "polling every 2 s"
        tab.wait_for_selector("#nodes-rows tr")


def test_a_thousand_jobs_are_drawn_at_once(browser: Any, node: NodeProcess) -> None:
    """What is drawn is what is seen, and the rest as one comes to it: numbers of elements and of
    handlers are a law; how long it takes is said, and bounded for a machine that does much else."""
    statements = [f"CREATE TABLE seen.many{n} (a INT, b VARCHAR(20))" for n in range(1000)]
    rows = "document.querySelectorAll('#jobs-rows tr').length"
    with held(node, *statements):
        painted_ms = []
        for _ in range(3):
            with opened(browser, node, script=PAINTED) as tab:
                until(lambda tab=tab: tab.evaluate("window.painted_ms"))
                painted_ms.append(round(tab.evaluate("window.painted_ms")))
                assert tab.locator("#jobs-count").inner_text() == "1,000"
                assert tab.evaluate(rows) == 20
                elements = tab.evaluate("document.querySelectorAll('#jobs *').length")
                handlers = tab.evaluate("window.handlers")
                assert elements < 700 and handlers < 40, (elements, handlers)
        print(f"painted in ms: {painted_ms}; {elements} elements, {handlers} handlers")
        assert min(painted_ms) < 500, painted_ms

        with opened(browser, node) as tab:
            filtered_ms = tab.evaluate(
                """() => {
                  const filter = document.querySelector('#jobs-filter');
                  const times = [];
                  for (const text of ['many7', '', 'many99', '']) {
                    const began = performance.now();
                    filter.value = text;
                    filter.dispatchEvent(new Event('input'));
                    document.body.getBoundingClientRect();
                    times.push(performance.now() - began);
                  }
                  return times;
                }"""
            )
            print("filtered in ms:", [round(each) for each in filtered_ms])
            assert min(filtered_ms) < 100, filtered_ms
            assert tab.evaluate(rows) == 20
            for many in (40, 60, 80, 100):  # who reads on
                tab.locator("#jobs-rows tr").last.scroll_into_view_if_needed()
                until(lambda many=many: tab.evaluate(rows) >= many)
            tab.locator("#cluster").scroll_into_view_if_needed()
            assert tab.locator("#jobs-more").inner_text() == "Load more (900)"
            assert tab.evaluate(rows) == 100
            tab.focus("#jobs-more")
            tab.keyboard.press("Enter")
            until(lambda: tab.evaluate(rows) > 100)
            assert tab.evaluate("document.activeElement.id") == "jobs-more"
            ids = tab.locator("#jobs-rows td:first-child .number").all_inner_texts()
            assert ids == sorted(set(ids), key=int)

"""Every button of the page, pressed in a browser at one of two nodes; its effect is read by SQL at
the other."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.browser import open_browser
from support.node_processes import NodeProcess, running_nodes, until

pytestmark = [pytest.mark.browser, pytest.mark.long]
PASSWORD = "<b>sesame"
SCREENS = os.environ.get("EXUVIA_SCREENS", "")
"""A folder for what the page looked like."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    with running_nodes(tmp_path_factory.mktemp("commands"), 2) as started:
        with started[0].connect(autocommit=True) as client:
            client.query("CREATE DATABASE shop")
            client.query("CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, buyer INT)")
            client.query("CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(30))")
            client.query("INSERT INTO shop.items VALUES (1, 'a')")
            rows = ", ".join(f"({n % 997})" for n in range(20_000))
            client.query(f"INSERT INTO shop.orders (buyer) VALUES {rows}")
            client.query("ANALYZE TABLE shop.orders")
            client.query(f"CREATE USER operator IDENTIFIED BY '{PASSWORD}'")
            client.query("GRANT SUPER ON *.* TO operator")
            client.query("GRANT SELECT ON *.* TO operator")
            client.query("CREATE USER reader IDENTIFIED BY 'open'")
            client.query("SET GLOBAL tidb_ddl_reorg_batch_size = 32")
            client.query("SET GLOBAL tidb_ddl_reorg_max_write_speed = '2KiB'")
        until(lambda: "operator" in str(rows_of(started[1], "SELECT user FROM mysql.user")))
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


def rows_of(node: NodeProcess, statement: str) -> list[tuple[Any, ...]]:
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def submitted_job(node: NodeProcess, statement: str, *settings: str) -> int:
    """Submit a schema change. Returns the job's number."""
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        for setting in ("SET exuvia_ddl_async = ON", *settings):
            cursor.execute(setting)
        cursor.execute(statement)
        [(job, *_)] = cursor.fetchall()
        return int(job)


def job_row(node: NodeProcess, job: int) -> tuple[str, str]:
    """(state, comments)."""
    select = "SELECT STATE, COMMENTS FROM information_schema.ddl_jobs WHERE JOB_ID"
    rows = rows_of(node, f"{select} = {job}")
    return (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")


def is_in(node: NodeProcess, job: int, *states: str) -> None:
    until(lambda: job_row(node, job)[0] in states, about=lambda: job_row(node, job))


@contextmanager
def page_of(browser: Any, node: NodeProcess, *, fails: int = 0) -> Iterator[Any]:
    """A tab in which `fails` requests are refused, and no other errors occur."""
    troubles: list[str] = []
    viewport = {"width": 1440, "height": 900}
    with closing(browser.new_context(viewport=viewport, color_scheme="dark")) as context:
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: troubles.append(message.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.goto(f"http://127.0.0.1:{node.status_port}/")
        tab.wait_for_selector("#link.live")
        yield tab
        refused = [trouble for trouble in troubles if "403 (Forbidden)" in trouble]
        assert len(refused) == fails and len(troubles) == fails, troubles


def log_in(tab: Any, user: str, password: str) -> None:
    tab.click("#login-open")
    tab.fill("#login-user", user)
    tab.fill("#login-password", password)
    tab.keyboard.press("Enter")


def button(job: int, what: str) -> str:
    return f'#jobs-rows [aria-label="Job {job}"] button[data-what={what}]'


def buttons(tab: Any, job: int) -> list[str]:
    group = tab.locator(f'#jobs-rows [aria-label="Job {job}"] button')
    return [str(label) for label in group.all_inner_texts()]


def hears(tab: Any, *texts: str, where: str = "#said") -> None:
    def shows_all() -> bool:
        return all(text in tab.locator(where).inner_text() for text in texts)

    until(shows_all, about=lambda: tab.locator(where).inner_text())


def keep(tab: Any, name: str) -> None:
    if SCREENS:
        Path(SCREENS).mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=Path(SCREENS) / f"{name}.png")


def test_every_button_does_what_its_statement_does(browser: Any, nodes: list[NodeProcess]) -> None:
    here, there = nodes
    fill = submitted_job(there, "ALTER TABLE shop.orders ADD INDEX by_buyer (buyer)")
    behind = submitted_job(there, "ALTER TABLE shop.orders ADD COLUMN note INT")
    hold = "SET exuvia_ddl_hold = 'start'"
    held_job = submitted_job(there, "ALTER TABLE shop.items ADD INDEX by_name (name)", hold)
    with page_of(browser, here, fails=1) as tab:
        tab.wait_for_selector("#jobs-rows tr")
        assert tab.locator("#jobs-rows button").count() == 0
        assert tab.locator("#jobs .acts").is_hidden()
        log_in(tab, "operator", PASSWORD)
        tab.wait_for_selector(button(fill, "alter"))
        hears(tab, "Logged in as operator@127.0.0.1")
        until(lambda: tab.locator("#jobs-rows .bar").count() > 0)
        assert buttons(tab, held_job) == ["Complete", "Settings", "Cancel"]
        keep(tab, "jobs")

        # a job that waits for another: pause, resume, cancel
        tab.focus(button(behind, "pause"))
        tab.keyboard.press("Enter")
        is_in(there, behind, "paused")
        hears(tab, f"ADMIN PAUSE DDL JOBS {behind}: successful")
        tab.click(button(behind, "resume"))
        is_in(there, behind, "queueing")
        tab.wait_for_selector(button(behind, "pause"))
        tab.click(button(behind, "cancel"))
        assert f"Cancel job {behind}?" in tab.locator("#command").inner_text()
        keep(tab, "cancel")
        tab.click("#command-no")
        assert job_row(there, behind)[0] == "queueing"
        tab.click(button(behind, "cancel"))
        tab.click("#command-yes")
        is_in(there, behind, "cancelled")
        assert "note" not in str(rows_of(there, "SHOW COLUMNS FROM shop.orders"))

        # a fill: what it may not be given, what it may; hold, complete
        tab.click(button(fill, "alter"))
        assert tab.evaluate("document.activeElement.id") == "set-thread"
        tab.fill("#set-thread", "100000")
        tab.keyboard.press("Enter")
        hears(tab, "out of range", where="#command-said")
        assert "thread" not in job_row(there, fill)[1]
        tab.fill("#set-thread", "2")
        tab.fill("#set-batch", "64")
        tab.fill("#set-speed", "3KiB")
        tab.click("#command-yes")
        tab.wait_for_selector("#command", state="hidden")
        settings = "thread=2, batch_size=64, max_write_speed=3072"
        until(lambda: settings in job_row(there, fill)[1], about=lambda: job_row(there, fill))
        tab.click(button(fill, "hold"))
        tab.wait_for_selector(button(fill, "complete"))
        assert "hold" not in [label.lower() for label in buttons(tab, fill)]
        tab.click(button(fill, "pause"))
        is_in(there, fill, "paused")
        tab.click(button(fill, "resume"))
        is_in(there, fill, "running", "queueing")
        tab.wait_for_selector(button(fill, "pause"))
        tab.click(button(fill, "alter"))
        tab.fill("#set-speed", "0")
        tab.keyboard.press("Enter")
        is_in(there, fill, "held")
        index = "SHOW INDEX FROM shop.orders WHERE Key_name = 'by_buyer'"
        assert rows_of(there, index) == []
        tab.wait_for_selector(f"{button(fill, 'pause')}", state="detached")
        tab.click(button(fill, "complete"))
        is_in(there, fill, "synced")
        assert len(rows_of(there, index)) == 1

        # one that is held from its start
        tab.click(button(held_job, "complete"))
        is_in(there, held_job, "synced")
        until(lambda: tab.locator("#jobs-rows tr").count() == 0)
        until(lambda: "by_name" in tab.locator("#history-rows").inner_text())
        tab.click("#logout")
        hears(tab, "Logged out")
        assert tab.locator("#login-open").is_visible()
        assert "exuvia" not in str(tab.context.cookies())


def test_a_job_that_rolls_back_has_no_buttons(browser: Any, nodes: list[NodeProcess]) -> None:
    here, there = nodes
    with there.connect() as writer, page_of(browser, here) as tab:
        log_in(tab, "operator", PASSWORD)
        job = submitted_job(there, "ALTER TABLE shop.orders ADD INDEX again (buyer, id)")
        until(lambda: "rows/s" in job_row(there, job)[1], about=lambda: job_row(there, job))
        writer.query("BEGIN")
        writer.query("INSERT INTO shop.orders (buyer) VALUES (7)")
        tab.click(button(job, "cancel"))
        tab.click("#command-yes")
        until(
            lambda: "INSERT INTO shop" in job_row(there, job)[1], about=lambda: job_row(there, job)
        )
        is_in(there, job, "rollingback")
        until(lambda: "rollingback" in tab.locator("#jobs-rows tr").inner_text())
        assert buttons(tab, job) == []
        keep(tab, "rolls_back")
        writer.query("COMMIT")
        is_in(there, job, "cancelled", "rollback done")
        until(lambda: tab.locator("#jobs-rows tr").count() == 0)
        row = tab.locator("#history-rows tr").first
        until(lambda: "cancelled" in row.inner_text() or "rollback done" in row.inner_text())


def test_a_login_without_privileges_gets_an_error(browser: Any, nodes: list[NodeProcess]) -> None:
    here, there = nodes
    hold = "SET exuvia_ddl_hold = 'start'"
    job = submitted_job(there, "ALTER TABLE shop.items ADD COLUMN more INT", hold)
    with page_of(browser, here, fails=2) as tab:
        log_in(tab, "reader", "<script>alert(1)</script>")
        hears(tab, "Access denied", where="#login-said")
        assert tab.locator("#login-password").input_value() == ""
        tab.fill("#login-password", "open")
        tab.keyboard.press("Enter")
        tab.click(button(job, "complete"))
        hears(tab, "SUPER")
        assert job_row(there, job)[0] == "held"
    rows_of(there, f"ADMIN CANCEL DDL JOBS {job}")
    is_in(there, job, "cancelled")


def test_a_histogram_is_drawn_for_a_reader_of_values(
    browser: Any, nodes: list[NodeProcess]
) -> None:
    with page_of(browser, nodes[0]) as tab:
        tab.click("#table-found button[data-table=orders]")
        hears(tab, "Log in to see histograms", where="#table-statistics-said")
        log_in(tab, "operator", PASSWORD)
        tab.wait_for_selector("#table-statistics details")
        first = tab.locator("#table-statistics details").first
        assert "id 20,000 distinct" in first.inner_text()
        first.locator("summary").focus()
        tab.keyboard.press("Enter")
        picture = first.locator("svg")
        picture.wait_for()
        assert "from 1 to 20000" in str(picture.get_attribute("aria-label"))
        assert picture.locator("rect").count() > 50
        keep(tab, "histogram")

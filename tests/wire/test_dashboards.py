"""Dashboards and alerts in deploy/ use only metrics that a node exposes."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exuvia.kv.postgres.store import GROUPED, MEASURES
from exuvia.kv.store import open_store
from exuvia.pipeline.measures import MB, WaveReport
from exuvia.server.http import tasks_in
from exuvia.server.metrics import METERS
from support.node_processes import ROOT, NodeProcess, until
from support.postgres import shared_server

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "exuvia.json"
PROMTOOL = shutil.which("promtool")
OF_POSTGRESQL = {f"exuvia_store_{name}" for name in (*MEASURES, *GROUPED)}


def samples(node: NodeProcess) -> set[str]:
    families = text_string_to_metric_families(node.get("/metrics")[1])
    return {sample.name for family in families for sample in family.samples}


def labels(node: NodeProcess, name: str) -> list[dict[str, str]]:
    families = text_string_to_metric_families(node.get("/metrics")[1])
    return [
        sample.labels for family in families for sample in family.samples if sample.name == name
    ]


def named(text: str) -> set[str]:
    return set(re.findall(r"\bexuvia_[a-z0-9_]+", text))


@pytest.fixture(scope="module")
def dashboard() -> ModuleType:
    """tools/dashboard.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import dashboard as module
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return module


def test_the_dashboard_is_what_the_registry_gives(dashboard: ModuleType) -> None:
    """Another metric, or another text of one, needs `python tools/dashboard.py`."""
    assert DASHBOARD.read_text() == dashboard.dashboard()
    names = [meter.name for panel in dashboard.panels() for meter in dashboard.meters_of(panel)]
    assert set(names) == set(METERS)
    assert len(names) == len(set(names)) + 2  # jobs and commands have two panels


def test_a_metric_of_each_type_gets_a_panel(dashboard: ModuleType) -> None:
    for kind, expression in (
        ("gauge", "max by (a) (exuvia_x{job="),
        ("counter", "sum by (a) (rate(exuvia_x_total{job="),
        ("summary", "sum by (a) (rate(exuvia_x_sum{job="),
        ("histogram", "sum by (a) (rate(exuvia_x_sum{job="),
        ("info", "max by (a) (exuvia_x_info{job="),
    ):
        meter = METERS["exuvia_connections"]._replace(name="exuvia_x", kind=kind, labels=("a",))
        [[query, legend]] = dashboard.panel_of(meter).queries
        assert dashboard.expression(query).startswith(expression), kind
        assert legend == "{{a}}"


def test_the_registry_is_what_a_node_exposes(node: NodeProcess) -> None:
    until(lambda: "exuvia_store_file_bytes" in samples(node))
    page = node.get("/metrics")[1]
    exposed = {
        exposed_family.name: exposed_family
        for exposed_family in text_string_to_metric_families(page)
    }
    info = METERS["exuvia_owner"]  # the text format has no type for it
    meters = METERS | {info.name: info._replace(name="exuvia_owner_info", kind="gauge")}
    here = [meter for name, meter in meters.items() if name not in OF_POSTGRESQL]
    assert set(exposed) == {meter.name for meter in here}
    for meter in here:
        exposed_family = exposed[meter.name]
        assert (exposed_family.type, exposed_family.documentation) == (meter.kind, meter.about), (
            meter.name
        )


def test_each_measure_of_a_store_has_a_meter() -> None:
    """A node answered 500 otherwise."""
    for url in (shared_server().new_url(), "memory:"):
        with closing(open_store(url)) as store:
            assert {f"exuvia_store_{name}" for name in store.measures()} <= METERS.keys()
    assert METERS.keys() >= OF_POSTGRESQL


def test_metrics_in_use_are_exposed(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        with pytest.raises(Exception, match="1146"):
            cursor.execute("SELECT * FROM test.missing_of_all")
        cursor.execute("SET exuvia_ddl_async = ON, exuvia_ddl_hold = 'start'")
        cursor.execute("CREATE TABLE test.of_the_dashboard (a INT)")
        [(job, *_)] = cursor.fetchall()
        until(lambda: labels(node, "exuvia_ddl_jobs"))
        exposed = samples(node)
        cursor.execute(f"ADMIN CANCEL DDL JOBS {job}")
    used = named(ALERTS.read_text())
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            assert named(target["expr"]), panel["title"]
            used |= named(target["expr"])
    exceptions = {"exuvia_disk_free_min", "exuvia_inspect_errors"}  # names in texts
    assert used - exposed - OF_POSTGRESQL == exceptions
    assert len(used) > 15
    for handler in ("stats meta", "priority queue", "feed"):
        assert {"handler": handler} in labels(node, "exuvia_event_handler_lag_events")
    until(lambda: node.status()["jobs_unfinished"] == 0)


def test_panels_do_not_lie_on_one_another() -> None:
    occupied: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & occupied, panel["title"]
        occupied |= cells
    assert max(x for x, _ in occupied) < 24


def promtool(*arguments: str, folder: Path, stdin: str = "") -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=folder, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promtool
def test_promtool_finds_nothing(node: NodeProcess, tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path / "alerts.yml")
    shutil.copy(Path(__file__).parent / "alerts_test.yml", tmp_path / "test.yml")
    promtool("check", "rules", "alerts.yml", folder=tmp_path)
    promtool("test", "rules", "test.yml", folder=tmp_path)
    promtool("check", "metrics", folder=tmp_path, stdin=node.get("/metrics")[1])


def test_tasks_of_a_running_job_are_metrics_of_its_engine() -> None:
    reports = [
        WaveReport("spark", 2, total=16, done=3, running=2, failed=1, retried=1, slowest_s=4.5),
        WaveReport("spark", 1, total=4, done=4, slowest_s=7.0, read=3 * MB),
    ]
    notes = [f"fill, spans done: 3; {report.text()}" for report in reports]
    shown = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in tasks_in([*notes, "", "fill, 500 rows/s"])
        for sample in metric.samples
    }
    of_tasks = {
        key[2]: value for key, value in shown.items() if key[:2] == ("exuvia_tasks", "spark")
    }
    assert of_tasks == {"running": 2, "waiting": 11, "done": 7, "failed": 1, "retried": 1}
    assert shown["exuvia_task_executors", "spark"] == 3
    assert shown["exuvia_task_slowest_seconds", "spark"] == 7.0
    assert shown["exuvia_task_bytes", "spark", "read"] == 3 * MB
    assert shown["exuvia_tasks", "local", "running"] == 0

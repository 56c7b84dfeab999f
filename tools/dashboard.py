"""Grafana's dashboard from the registry of metrics (src/exuvia/server/metrics.py).

python tools/dashboard.py            writes deploy/grafana/exuvia.json

PANELS has what is shown together; a metric that none of them names gets a panel of its own, by its
type. `{exuvia_x}` in a query is the metric of the selected nodes. Panels are described by the help
texts of their metrics.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from exuvia.server.metrics import METERS, Meter

FILE = Path(__file__).parents[1] / "deploy/grafana/exuvia.json"
WIDE, STAT_WIDE, HIGH, STAT_HIGH = 12, 6, 8, 4
_SELECTED = '{job="exuvia",instance=~"$instance"%s}'
_RATE = "[$__rate_interval]"
_SERIES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
    "info": ("_info",),
}
_LATENCY = (
    'histogram_quantile(%s, sum by (le) (rate({exuvia_command_duration_seconds_bucket,kind=~"query|execute"}'
    + _RATE
    + ")))"
)


class Panel(NamedTuple):
    """`queries`: (expression, legend)."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


PANELS = (
    Panel(
        "Unfinished jobs",
        "short",
        (("max(sum by (instance) ({exuvia_ddl_jobs})) or vector(0)", ""),),
        "stat",
    ),
    Panel(
        "Oldest job that is not held",
        "s",
        (("max({exuvia_ddl_oldest_job_age_seconds})", ""),),
        "stat",
    ),
    Panel(
        "Schema version lag, worst node",
        "short",
        (("max({exuvia_schema_version_lag})", ""),),
        "stat",
    ),
    Panel("Connections", "short", (("sum({exuvia_connections})", ""),), "stat"),
    Panel(
        "Client latency",
        "s",
        tuple(
            (_LATENCY % share, name)
            for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
        ),
    ),
    Panel(
        "Backfill: rows per second",
        "short",
        (("clamp_min(max(deriv({exuvia_backfill_rows}[1m])), 0)", "rows/s"),),
    ),
    Panel(
        "Tasks of jobs",
        "short",
        (("max by (engine, state) ({exuvia_tasks,state!=\"done\"})", "{{engine}}: {{state}}"), ("max by (engine) ({exuvia_task_executors})", "{{engine}}: executors")),
    ),
    Panel("Bytes moved by tasks", "bytes", (("max by (direction) (sum by (instance, direction) ({exuvia_task_bytes}))", "{{direction}}"),)),
    Panel(
        "Unfinished jobs by type and state",
        "short",
        (
            ("max by (type, state) ({exuvia_ddl_jobs})", "{{type}}: {{state}}"),
            ("max({exuvia_ddl_jobs_waiting})", "waiting"),
        ),
    ),
    Panel("Schema version", "short", (("{exuvia_schema_version}", "{{instance}}"),)),
    Panel(
        "Commands per second",
        "ops",
        ((f"sum by (kind) (rate({{exuvia_command_duration_seconds_count}}{_RATE}))", "{{kind}}"),),
    ),
    Panel(
        "Errors sent to clients",
        "ops",
        (
            (f"sum by (code) (rate({{exuvia_client_errors_total}}{_RATE}))", "{{code}}"),
            (f"sum(rate({{exuvia_malformed_packets_total}}{_RATE}))", "malformed packets"),
        ),
    ),
    Panel(
        "Store (LMDB)",
        "bytes",
        (
            ("max({exuvia_store_file_bytes})", "file"),
            ("max({exuvia_store_used_bytes})", "data"),
            ("max({exuvia_store_kept_bytes})", "kept by old snapshots"),
            ("min({exuvia_store_disk_free_bytes})", "free on its disk"),
        ),
    ),
    Panel(
        "Write lock of the store",
        "short",
        (
            (
                f"sum by (instance) (rate({{exuvia_store_write_lock_seconds_sum}}{_RATE}))",
                "{{instance}}: share of the time",
            ),
            ("max({exuvia_store_write_lock_longest_seconds})", "longest, s"),
        ),
    ),
    Panel(
        "Owner of schema changes",
        "short",
        (("max by (member, term) ({exuvia_owner_info})", "{{member}}, term {{term}}"),),
    ),
)


def series_of(meter: Meter) -> tuple[str, ...]:
    """What a scrape has of a metric."""
    return tuple(meter.name + each for each in _SERIES.get(meter.kind, ("",)))


_OWNERS = {series: meter for meter in METERS.values() for series in series_of(meter)}


def meters_of(panel: Panel) -> list[Meter]:
    """The metrics that a panel shows. Raises KeyError for one that is not in the registry."""
    names = [
        name for query, _ in panel.queries for name in re.findall(r"(?<!\{)\{(exuvia_\w+)", query)
    ]
    return list(dict.fromkeys(_OWNERS[name] for name in names))


def panel_of(meter: Meter) -> Panel:
    """The panel of a metric that no other one shows."""
    by = f" by ({', '.join(meter.labels)}) " if meter.labels else ""
    legend = ", ".join(f"{{{{{each}}}}}" for each in meter.labels)
    first = series_of(meter)[0]
    unit = (
        "s"
        if meter.name.endswith("_seconds")
        else "bytes"
        if meter.name.endswith("_bytes")
        else "short"
    )
    if meter.kind == "counter":
        return Panel(meter.about, "ops", ((f"sum{by}(rate({{{first}}}{_RATE}))", legend),))
    if meter.kind in ("histogram", "summary"):
        count, total = f"rate({{{meter.name}_count}}{_RATE})", f"rate({{{meter.name}_sum}}{_RATE})"
        return Panel(
            meter.about, unit, ((f"sum{by}({total}) / sum{by}({count})", legend or "mean"),)
        )
    return Panel(meter.about, unit, ((f"max{by}({{{first}}})", legend),))


def panels() -> list[Panel]:
    """All of them: every metric is in one."""
    shown = {meter.name for panel in PANELS for meter in meters_of(panel)}
    return [*PANELS, *(panel_of(meter) for meter in METERS.values() if meter.name not in shown)]


def expression(query: str) -> str:
    """The query as Grafana sends it."""

    def selected(match: re.Match[str]) -> str:
        return match[1] + _SELECTED % (match[2] or "")

    return re.sub(r"(?<!\{)\{(exuvia_\w+)(,[^}]*)?\}", selected, query)


def _drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, object]:
    is_stat = panel.kind == "stat"
    options: dict[str, object] = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi"},
    }
    if is_stat:
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    custom = {} if is_stat else {"lineWidth": 2, "fillOpacity": 8}
    return {
        "id": number,
        "title": panel.title,
        "type": panel.kind,
        "description": ". ".join(meter.about for meter in meters_of(panel)) + ".",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {
            "h": STAT_HIGH if is_stat else HIGH,
            "w": STAT_WIDE if is_stat else WIDE,
            "x": x,
            "y": y,
        },
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": [],
        },
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + n), "expr": expression(query), "legendFormat": legend}
            for n, (query, legend) in enumerate(panel.queries)
        ],
    }


def dashboard() -> str:
    """The file's text."""
    drawn, x, y = [], 0, 0
    for number, panel in enumerate(sorted(panels(), key=lambda each: each.kind != "stat"), 1):
        made = _drawn(panel, number, x, y)
        drawn.append(made)
        place = made["gridPos"]
        assert isinstance(place, dict)
        x += place["w"]
        if x >= 2 * WIDE:
            x, y = 0, y + place["h"]
    instances = 'label_values(exuvia_schema_version{job="exuvia"}, instance)'
    page = {
        "title": "Exuvia",
        "uid": "exuvia",
        "tags": ["exuvia"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "type": "datasource",
                    "query": "prometheus",
                    "label": "Data source",
                },
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Node",
                    "datasource": {"type": "prometheus", "uid": "${datasource}"},
                    "query": {"query": instances, "refId": "instances"},
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                    "refresh": 2,
                },
            ]
        },
        "panels": drawn,
    }
    return json.dumps(page, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(dashboard())

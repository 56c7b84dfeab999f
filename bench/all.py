"""Every benchmark, one after another."""

import runpy

NAMES = (
    "schema_latency",
    "ddl_rate",
    "picking",
    "concurrent_ddl",
    "explained_time",
    "point_select",
    "add_index",
    "under_load",
    "notifier",
)


def main() -> None:
    """Run them as their own commands would."""
    for name in NAMES:
        runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

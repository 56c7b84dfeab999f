"""The demo's screen: one table of changes, the clients' figures above it, redrawn while it runs.

On a terminal it is live; elsewhere (a log, a pipe) a line is printed whenever a state changes.
"""

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from exuvia.cli.demo.watch import Progress, Window

STATES = ("none", "delete only", "write only", "write reorganization", "public")


class Screen:
    """Draws progress. `with Screen() as screen: screen.draw(...)`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._printed: set[tuple[str, str]] = set()

    def __enter__(self) -> "Screen":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def draw(self, changes: list[Progress], window: Window) -> None:
        """Show how far every change is and how the clients fare."""
        if self.live:
            self.live.update(Group(_clients(window), _jobs(changes)))
            return
        for progress in changes:
            for state in progress.states:
                if (progress.change.title, state) not in self._printed:
                    self._printed.add((progress.change.title, state))
                    self.console.print(
                        f"  {progress.change.title}: {state}, {progress.rows:,} rows "
                        f"{progress.note}"
                        f"  | clients {window.statements_per_s:.0f}/s p99 {window.p99_ms:.1f} ms"
                    )


def _clients(window: Window) -> Text:
    return Text(
        f"clients: {window.statements_per_s:6.0f} writes/s   p99 {window.p99_ms:6.1f} ms",
        style="bold cyan",
    )


def _jobs(changes: list[Progress]) -> Table:
    table = Table("schema change", "state", "rows", "now", "seconds", expand=False)
    for progress in changes:
        state = list(progress.states)[-1] if progress.states else "waiting"
        style = "green" if progress.done and not progress.error else "yellow"
        table.add_row(
            progress.change.title,
            Text(f"{_bar(state)} {state}", style=style),
            f"{progress.rows:,}",
            progress.error or progress.note.split("; ")[0],
            f"{progress.seconds:.1f}" if progress.done else "",
        )
    return table


def _bar(state: str) -> str:
    reached = STATES.index(state) if state in STATES else 0
    return "●" * (reached + 1) + "○" * (len(STATES) - 1 - reached)

"""Two ways to show progress: a live table on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stack.follow import Display, TaskLine

_STYLES = {
    "success": "green",
    "failed": "bold red",
    "upstream_failed": "red",
    "up_for_retry": "yellow",
    "running": "cyan",
    "deferred": "magenta",
    "skipped": "dim",
}
_QUIET_STATES = ("waiting", "scheduled", "queued")
_TRAINING_EVERY_S = 5.0


class PlainDisplay:
    """One line per change of a task; the training every few seconds."""

    def __init__(self, console: Console) -> None:
        """Nothing is known yet."""
        self._console = console
        self._began = time.monotonic()
        self._seen: dict[tuple[str, int], tuple[str, int]] = {}
        self._trained_at = float("-inf")

    def show(self, tasks: list[TaskLine], training: str) -> None:
        """Print what has changed."""
        for task in tasks:
            key = (task.state, task.try_number)
            if task.state not in _QUIET_STATES and self._seen.get(task.key) != key:
                self._seen[task.key] = key
                self._say(f"{task.name:34} {task.state}{_extra(task)}")
        now = time.monotonic()
        if training and now - self._trained_at >= _TRAINING_EVERY_S:
            self._trained_at = now
            self._say(f"  {training}")

    def _say(self, line: str) -> None:
        elapsed = time.monotonic() - self._began
        self._console.print(f"[{elapsed:5.1f} s] {line}", markup=False, highlight=False, soft_wrap=True)


def _extra(task: TaskLine) -> str:
    seconds = f", {task.seconds:.1f} s" if task.state in ("success", "failed") and task.seconds is not None else ""
    return seconds + (f", try {task.try_number}" if task.try_number > 1 else "")


class LiveDisplay:
    """A table that is drawn again at each look."""

    def __init__(self, live: Live, title: str) -> None:
        """Draw into a running `Live`."""
        self._live = live
        self._title = title

    def show(self, tasks: list[TaskLine], training: str) -> None:
        """Draw the table and the line of the training."""
        self._live.update(Group(task_table(tasks, self._title), Text(training, style="bold cyan")))


def task_table(tasks: list[TaskLine], title: str) -> Table:
    """Tasks with state, seconds and try."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("task", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("try", justify="right")
    for task in tasks:
        state = Text(task.state, style=_STYLES.get(task.state, "dim"))
        seconds = "" if task.seconds is None else f"{task.seconds:.1f}"
        table.add_row(task.name, state, seconds, str(task.try_number) if task.try_number > 1 else "")
    return table


@contextmanager
def display_on(console: Console, title: str) -> Iterator[Display]:
    """The display that suits the console."""
    if not console.is_terminal:
        yield PlainDisplay(console)
        return
    with Live(console=console, refresh_per_second=4, vertical_overflow="visible") as live:
        yield LiveDisplay(live, title)

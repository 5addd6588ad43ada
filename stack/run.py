"""``make run``: the stack, one lifecycle run, its progress, its summary, and an exit status that tells the truth."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console

from include.config.workload import Workload
from include.core.errors import PlimsollError
from include.core.exit_codes import ExitCode
from include.core.ids import run_prefix
from include.core.store import ObjectStore
from stack import dag_ready, ec2_local, pools, record, start, stop, summary
from stack.airflow_api import AirflowApi, ApiError, quoted
from stack.child_environment import settings_of
from stack.displays import display_on
from stack.errors import SettingsError, StackError
from stack.follow import follow
from stack.installation import Installation, StackSettings, unusable
from stack.last_run import Durations, LastRun
from stack.leases_left import leases_left
from stack.ports import WANTED, Ports
from stack.printed_summary import print_summary
from stack.run_facts import gather
from stack.run_order import RunOrder, parse
from stack.settings_mistakes import read_settings, refuse_what_a_run_lacks
from stack.start import Stack

# DAGs that keep the installation safe and tidy: without them nothing ends a forgotten lease.
_GUARDS = ("lease_reaper", "storage_lifecycle")
_INTERRUPTED = 130
_LEASES_GONE_S = 20.0
# `make run` starts this program as soon as its set-up has ended.
_FRESH_SETUP_S = 60.0
_WIDTH = 130


class Command:
    """One ``make run``."""

    def __init__(self, order: RunOrder, settings: StackSettings, console: Console) -> None:
        """Nothing is started yet."""
        self._order = order
        self._settings = settings
        self._console = console
        self._began = time.monotonic()
        # Read now: any later set-up, for example that of `make check-workload`, writes its own figure there.
        self._setup_s = _setup_seconds(Installation.of(settings).repo)
        self._run_begun = False
        self._run_state = ""

    def say(self, line: str) -> None:
        """One line with the seconds since the command began."""
        elapsed = time.monotonic() - self._began
        self._console.print(f"[{elapsed:5.1f} s] {line}", markup=False, highlight=False, soft_wrap=True)

    def run(self) -> LastRun:
        """Start or find the stack, run the workload, sum up.

        Raises:
            StackError: It did not come to a run.
        """
        # A mistake in the workload file is told before anything is started.
        folder = settings_of(Installation.of(self._settings), Ports(**WANTED)).workloads
        workload, warnings = dag_ready.choose_workload(folder, self._order.workload)
        for warning in warnings:
            self.say(warning)
        began = time.monotonic()
        stack = start.start(self._settings, self.say)
        api = stack.api()
        self._make_ready(stack, api, workload)
        stack_s = time.monotonic() - began
        try:
            run_id, state, run_s = self._one_run(stack, api, workload)
        finally:
            if not self._order.once:
                switch_on_guards(api)
        return self._sum_up(stack, api, workload, run_id, state, stack_s=stack_s, run_s=run_s)

    def _make_ready(self, stack: Stack, api: AirflowApi, workload: Workload) -> None:
        pools.ensure(api)
        since = stack.started_at
        if stack.reused:
            since = dag_ready.newest_change((stack.installation.repo / "dags", stack.settings.workloads))
        dag_ready.wait_for_dag(api, workload.name, since=since, timeout_s=self._settings.start_timeout_s)
        dag_ready.wait_for_files(api, stack.installation.repo / "dags", since=since)
        dag_ready.refuse_broken_code(api, since=since)
        api.unpause(workload.name)

    def _one_run(self, stack: Stack, api: AirflowApi, workload: Workload) -> tuple[str, str, float]:
        if waiting := api.active_runs(workload.name):
            self.say(f"{len(waiting)} run(s) of {workload.name} are under way: the new one waits for them")
        run_id = api.trigger(workload.name, {"interruption_drill": True} if self._order.drill else {})
        self._run_begun = True
        began = time.monotonic()
        self.say(f"Run {run_id} of {workload.name}: {_run_url(stack, workload.name, run_id)}")
        secrets = stack.installation.secrets / "passwords.json"
        self.say(f"Log in as admin or viewer; the passwords are in {secrets}")
        prefix = run_prefix(workload=workload.name, run_id=run_id)
        with self._interrupting(stack, prefix), display_on(self._console, f"{workload.name} {run_id}") as display:
            state = follow(
                api=api,
                store=ObjectStore(stack.settings.store),
                dag_id=workload.name,
                run_id=run_id,
                prefix=prefix,
                display=display,
                stack_goes_on=lambda: record.goes_on(stack.installation, stack.started_at),
            )
        self._run_state = state
        return run_id, state, time.monotonic() - began

    @contextmanager
    def _interrupting(self, stack: Stack, prefix: str) -> Iterator[None]:
        """On the EC2 double the drill takes spot instances away; elsewhere the agent announces its own notice."""
        if stack.ports.ec2 is None or not self._order.drill:
            yield
            return
        interruptions = ec2_local.Interruptions(
            ports=stack.ports, store=ObjectStore(stack.settings.store), prefix=prefix, at=ec2_local.INTERRUPTED_AT
        )
        with ec2_local.interrupting(interruptions):
            yield

    def _sum_up(
        self,
        stack: Stack,
        api: AirflowApi,
        workload: Workload,
        run_id: str,
        state: str,
        *,
        stack_s: float,
        run_s: float,
    ) -> LastRun:
        store, prefix = ObjectStore(stack.settings.store), run_prefix(workload=workload.name, run_id=run_id)
        facts = gather(store, prefix)
        outcome = summary.RunOutcome(
            workload=workload,
            run_id=run_id,
            run_prefix=prefix,
            state=state,
            failures=summary.failures(api, workload.name, run_id),
            leases_left=tuple(sorted(_settled_leases(store, stack))),
            prediction=summary.predict(facts, store),
            durations=Durations(setup_s=self._setup_s, stack_s=stack_s, run_s=run_s),
            urls=_urls(stack, workload.name, run_id, facts.deployed.url if facts.deployed else None),
        )
        found = summary.summarise(outcome, facts)
        stack.installation.last_run.write_text(found.model_dump_json(indent=2))
        print_summary(found, self._console)
        self.say(f"Summary written to {stack.installation.last_run}")
        return found

    def interrupted(self) -> str:
        """What Control-C has left behind, and what to do now."""
        state = record.read(Installation.of(self._settings))
        if state is None:
            return "Interrupted while no stack runs: nothing is left, `make run` starts again."
        if not state.runs or state.stopping:
            return (
                "Interrupted while the stack was ending: `make stop` ends what is left, then `make run` starts again."
            )
        if not state.healthy:
            return (
                "Interrupted in the middle of the start: the stack is half started, and no run was begun. "
                "`make stop` ends it, then `make run` starts again."
            )
        url = state.chosen_ports.url("airflow")
        if self._run_state:
            what = (
                f"The run has ended as {self._run_state}, its summary is not written; the stack goes on: look at {url}"
            )
        elif self._run_begun:
            what = f"The stack and the run go on: follow it at {url}"
        else:
            what = f"The stack goes on at {url}, and no run was begun: `make run` uses it"
        return f"Interrupted. {what}, end everything with `make stop`."


def switch_on_guards(api: AirflowApi) -> None:
    """Let the guards run from now on. They begin at once, so on a small machine they wait for the person's own run."""
    for dag_id in _GUARDS:
        try:
            if api.dag(dag_id) is not None:
                api.unpause(dag_id)
        except ApiError:
            # The stack is going down, and then there is nothing to guard; the run's own error is the one to show.
            return


def _settled_leases(store: ObjectStore, stack: Stack) -> set[str]:
    """Leases that still live after the agents had a moment to leave."""
    deadline = time.monotonic() + _LEASES_GONE_S
    while (left := leases_left(store, stack.settings, stack.ports)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def _run_url(stack: Stack, dag_id: str, run_id: str) -> str:
    return f"{stack.ports.url('airflow')}/dags/{dag_id}/runs/{quoted(run_id)}"


def _urls(stack: Stack, dag_id: str, run_id: str, endpoint: str | None) -> dict[str, str]:
    airflow = stack.ports.url("airflow")
    urls = {
        "Airflow": _run_url(stack, dag_id, run_id),
        "Dashboard": f"{airflow}/plugin/plimsoll",
        "MLflow": stack.ports.url("mlflow"),
    }
    return {**urls, "Model server": endpoint or stack.ports.url("serving")}


def _setup_seconds(repo: Path) -> float | None:
    """What the set-up of this command took; an older figure belongs to another command."""
    path = repo / "var" / "setup_seconds"
    if not path.exists() or time.time() - path.stat().st_mtime > _FRESH_SETUP_S:
        return None
    return float(path.read_text())


@contextmanager
def _user_of_the_stack(installation: Installation) -> Iterator[IO[str]]:
    """Hold the shared lock of those who follow a run, so that nobody stops the stack under another's feet."""
    installation.create()
    try:
        opened = (installation.run / "users.lock").open("a")
    except OSError as error:
        raise unusable(installation.var, error) from error
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield lock


def _is_last_user(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def execute(order: RunOrder, settings: StackSettings, console: Console) -> int:
    """Run the command; returns its exit status."""
    try:
        command = Command(order, settings, console)
        with _user_of_the_stack(Installation.of(settings)) as lock:
            return _carry_out(command, order, settings, console, lock)
    except SettingsError as error:
        return refuse(error, console)


def _carry_out(command: Command, order: RunOrder, settings: StackSettings, console: Console, lock: IO[str]) -> int:
    try:
        status = 0 if command.run().success else 1
    except SettingsError:
        raise
    except (StackError, ApiError, PlimsollError) as error:
        console.print(f"make run: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        status = 1
    except KeyboardInterrupt:
        status = _INTERRUPTED
        if not order.once:
            command.say(command.interrupted())
    if order.once:
        status = _stop_at_the_end(settings, command, lock) or status
    return status


def refuse(error: SettingsError, console: Console) -> int:
    """Print the mistakes in the settings, a line each; returns the exit status."""
    for line in str(error).splitlines():
        console.print(f"make run: {line}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    return ExitCode.BAD_INPUT


def _stop_at_the_end(settings: StackSettings, command: Command, lock: IO[str]) -> int:
    if not _is_last_user(lock):
        command.say("Another `make run` follows a run on this stack: it is left running; `make stop` ends it.")
        return 0
    try:
        stop.stop(settings, command.say)
    except StackError as error:
        command.say(f"Not everything was stopped: {error}")
        return 1
    return 0


def main() -> int:
    """Entry point."""
    console = Console(highlight=False)
    if not console.is_terminal:
        # A file or a pipe has no width of its own, and the tables need this much.
        console = Console(highlight=False, width=_WIDTH)
    order = parse()
    try:
        settings = order.on(read_settings())
        refuse_what_a_run_lacks(settings)
    except SettingsError as error:
        return refuse(error, console)
    return execute(order, settings, console)


if __name__ == "__main__":
    sys.exit(main())

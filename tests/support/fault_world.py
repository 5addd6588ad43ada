"""One random fault sequence: real driver, ledger, EC2 engine and reaper; EC2 double, simulated agents, virtual time.

``PYTHONPATH=.:plugins .venv/bin/python -m tests.support.fault_world <seed>`` plays one again and tells its story.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from include.compute.cancel import cancel_run
from include.compute.driver import Delayed, Finished, JobDriver, JobFailedError, Waiting
from include.compute.engines.ec2 import Ec2Engine
from include.compute.engines.local import LocalEngine
from include.compute.engines.router import EngineRouter
from include.compute.holdings import Holdings
from include.compute.lease_keys import LeaseKeys
from include.compute.reap_plan import ReapLimits
from include.compute.reaper import reap
from include.config.settings import Settings
from include.core.contracts.lease import LeaseState
from include.core.errors import GroupClosedError, UserError
from include.ledger.migrate import migrate
from stack.ec2_double import Ec2Double, Faults
from tests.support.fault_agent import Record, SimMachines
from tests.support.fault_checks import accounts, leaks, losses
from tests.support.fault_hub import Actor, CrashHere, Hub, HubClock
from tests.support.fault_plan import make_candidates, make_market, make_rules
from tests.support.fault_ports import PortLedger, SharedClients, StoreContent, VirtualStore, client, use_double
from tests.support.fault_run import Run

# The real release operator is part of a sequence; Airflow reads its configuration once, when that is imported.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="plimsoll-airflow-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
os.environ.setdefault("AIRFLOW__CORE__UNIT_TEST_MODE", "True")

HOUR_S = 3600.0
LOST_AFTER_S = 45.0
BOOT_WITHIN_S = 900.0
REAP_EVERY_S = 600.0
DEAD_MAN_S = 1800.0
# A run that asks for capacity every five seconds, for as long as it may wait for it, makes less than a thousand.
MOST_MOVES = 5000


class World:
    """Everything of one sequence."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.chance = chance = random.Random(f"world {seed}")
        self.hub = Hub(seed, switch_chance=chance.choice((0.0, 0.0, 0.02, 0.2)))
        self.content = StoreContent(self.hub)
        self.settings = Settings.model_validate(
            {
                "store": f"file://{folder / 'store'}",
                "engine": "ec2",
                "ec2_ami": "ami-12c6146b",
                "ec2_worker_image": "plimsoll-worker:1",
                "ec2_dead_man_s": DEAD_MAN_S,
                "work_root": folder / "work",
                "preemption_budget": 30,
            }
        )
        self.control_clock = HubClock(self.hub)
        self.ledger = PortLedger(f"sqlite:///{folder / 'ledger.db'}", hub=self.hub, clock=self.control_clock)
        self.record = Record()
        machines_store = VirtualStore(self.settings.store, self.content, side="agent")
        self.machines = SimMachines(self.hub, machines_store, dead_man_s=DEAD_MAN_S, record=self.record)
        self.plan: list[str] = []
        self.market = make_market(chance, self.plan.append)
        self.double = Ec2Double(
            HubClock(self.hub),
            self.market,
            Faults(make_rules(chance, self.plan.append)),
            self.machines,
            boot_s=chance.choice((1.0, 2.0)),
            shutdown_s=chance.choice((2.0, 30.0)),
            visible_after_s=chance.choice((0.0, 0.0, 1.0, 8.0)),
            seed=seed,
        )
        use_double(self.double, self.hub, self._look_for_twins)
        self.candidates = make_candidates(chance, self.market)
        numbers = (1, 2) if chance.random() < 0.25 else (1,)
        quota = len(numbers) > 1 and chance.random() < 0.6
        self.runs = [Run(seed, number, self.candidates, quota) for number in numbers]
        self.crashes = chance.choice((0, 1, 2, 4))
        self.duplicates: list[str] = []
        self.quiet_since = 0.0
        self.problems: list[str] = []
        self._schedule()

    # --- what is planned -------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        chance, hub = self.chance, self.hub
        for run in self.runs:
            hub.after(chance.choice((0.0, 0.0, 200.0)), lambda run=run: self.start(run, "task"))
        for _ in range(chance.choice((0, 0, 1, 2))):
            since, lasts = chance.uniform(0, 3000), chance.choice((5.0, 60.0, 400.0, 2000.0))
            side = chance.choice(("agent", "control", "all"))
            self.content.outages.append((since, since + lasts, side))
            self.plan.append(f"store outage for {side} at {since:.0f} for {lasts:.0f} s")
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            self._at(chance.uniform(0, 3000), "an agent hangs", self._hang)
        if chance.random() < 0.2:
            jump = chance.choice((-7200.0, -60.0, 45.0, 3600.0, 86_400.0))
            self._at(chance.uniform(0, 2000), f"the control clock jumps by {jump}", lambda: self._jump(jump))
        for kind, share in (("race", 0.25), ("cancel", 0.12), ("fail", 0.12), ("clear", 0.15), ("delete", 0.04)):
            if chance.random() < share:
                run = chance.choice(self.runs)
                act = partial(getattr(self, f"_{kind}"), run)
                self._at(chance.choice((5.0, 60.0, chance.uniform(0, 3000))), f"{kind} run {run.number}", act)
        hub.after(REAP_EVERY_S, self._reap)
        hub.after(5.0, self._tick)

    def _at(self, when: float, text: str, act: Callable[[], None]) -> None:
        self.plan.append(f"at {when:.0f}: {text}")

        def do() -> None:
            self.hub.say(text)
            act()

        self.hub.at(when, do)

    # --- what happens ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.double.tick()
        live = self._look_for_twins()
        self.hub.after(10.0 if live else 60.0, self._tick)

    def _look_for_twins(self) -> bool:
        """Note two live instances of one generation; whether anything lives."""
        live: dict[str, list[str]] = {}
        for instance in self.double.instances():
            if instance.is_live:
                live.setdefault(instance.tags.get("plimsoll:lease", ""), []).append(instance.instance_id)
        self.duplicates += [f"{lease}: {ids}" for lease, ids in live.items() if len(ids) > 1]
        return bool(live)

    def _hang(self) -> None:
        for agent in self.machines.agents.values():
            if agent.owns and not (agent.dead or agent.left):
                agent.hung = True

    def _jump(self, seconds: float) -> None:
        self.control_clock.skew_s += seconds

    def _race(self, run: Run) -> None:
        if run.phase != "over":
            self.start(run, "second task")

    def _kill_all(self, run: Run) -> None:
        for actor in list(run.actors):
            actor.on_end = None
            self.hub.kill(actor)
        run.actors.clear()

    def _fail(self, run: Run) -> None:
        """A person marks the run failed: tasks are killed, teardowns run."""
        if run.phase == "over":
            return
        self._kill_all(run)
        run.state, run.outcome, run.phase = "failed", run.outcome or "marked failed", "release"
        self.start(run, "teardown")

    def _clear(self, run: Run) -> None:
        """The task is cleared: it runs again from its beginning, in a new process."""
        if run.state != "running" or run.phase not in ("provision", "train"):
            return
        self._kill_all(run)
        run.suspect = None
        run.phase = self.chance.choice((run.phase, "provision"))
        self.start(run, "cleared task")

    def _delete(self, run: Run) -> None:
        """The run is deleted while it runs: nothing is torn down but by the reaper."""
        if run.phase == "over":
            return
        self._kill_all(run)
        run.state, run.outcome, run.phase = "deleted", "deleted", "over"

    def _cancel(self, run: Run) -> None:
        if run.phase == "over":
            return

        def mark() -> str:
            self._kill_all(run)
            run.state, run.outcome, run.phase = "failed", "cancelled", "over"
            return "marked failed"

        def body() -> None:
            for _ in range(30):
                report = cancel_run(
                    self.holdings(),
                    dag_id=run.dag_id,
                    run_id=run.run_id,
                    mark_failed=mark,
                    clock=self.control_clock,
                )
                if not report.left and not report.problems:
                    self._prove_nothing_left(run)
                    return
                self.hub.sleep(60)
            run.outcome = "cancelled, never clean"

        self.hub.spawn(f"cancel {run.number}", body)

    def _prove_nothing_left(self, run: Run) -> None:
        left = [i.instance_id for i in self.double.instances() if i.is_live and i.tags["plimsoll:run"] == run.run_id]
        if left:
            self.problems.append(f"cancel says that nothing is left of run {run.number}, but {left} live")

    def _reap(self) -> None:
        def body() -> None:
            try:
                report = reap(self.holdings(), run_state=self._run_state, limits=ReapLimits(), clock=self.control_clock)
            except CrashHere:
                raise
            except Exception as error:  # noqa: BLE001 - a failed pass; the next one comes
                self.hub.say(f"reaper fails: {type(error).__name__}: {error}")
                return
            for verdict in report.end:
                self.hub.say(f"reaper ends {verdict.lease.lease_id}: {verdict.why}")

        self._with_crash(self.hub.spawn("reaper", body), share=0.05)
        self.hub.after(REAP_EVERY_S, self._reap)

    def _run_state(self, dag_id: str, run_id: str) -> str | None:
        return next(run.state for run in self.runs if run.run_id == run_id)

    # --- processes of a run ----------------------------------------------------------------------------------------

    def driver(self) -> tuple[JobDriver, EngineRouter, VirtualStore, PortLedger]:
        """What a fresh process connects to."""
        store = VirtualStore(self.settings.store, self.content, side="control")
        ledger = self.ledger
        ec2 = Ec2Engine(store, self.settings, SharedClients(), clock=self.control_clock)
        # A lease whose launch request was never written is the local engine's to judge, as in an installation.
        engine = EngineRouter(store, {"local": LocalEngine(store=store, settings=self.settings), "ec2": ec2})
        driver = JobDriver(
            store=store,
            ledger=ledger,
            engine=engine,
            preemption_budget=self.settings.preemption_budget,
            capacity_wait_s=self.settings.capacity_wait_s,
            clock=self.control_clock,
        )
        return driver, engine, store, ledger

    def holdings(self) -> Holdings:
        driver, engine, store, ledger = self.driver()
        return Holdings(store=store, ledger=ledger, engine=engine, driver=driver, ec2=client("ec2"))

    def _with_crash(self, actor: Actor, *, share: float) -> Actor:
        if self.chance.random() < share:
            actor.crash_at = self.chance.randint(1, 60)
            actor.crash_after_effect = self.chance.random() < 0.5
        return actor

    def start(self, run: Run, name: str) -> None:
        def ended(actor: Actor, crashed: bool) -> None:
            if actor in run.actors:
                run.actors.remove(actor)
            if crashed and run.phase != "over" and not run.actors:
                self.hub.after(self.chance.choice((1.0, 30.0, 300.0)), lambda: self.start(run, name))

        actor = self.hub.spawn(f"{name} {run.number}", lambda: self._live(run), on_end=ended)
        run.actors.append(actor)
        if self.crashes:
            actor.crash_at = self.chance.randint(1, 150)
            actor.crash_after_effect = self.chance.random() < 0.5
            self.crashes -= 1

    def _live(self, run: Run) -> None:
        driver, engine, store, ledger = self.driver()
        for _ in range(MOST_MOVES):
            if run.phase == "over":
                return
            try:
                self._move(run, driver, engine, store, ledger)
            except (UserError, GroupClosedError, JobFailedError) as error:
                self.hub.say(f"run {run.number} fails: {type(error).__name__}: {error}")
                if run.phase in ("provision", "train"):
                    run.outcome, run.state, run.phase = f"{type(error).__name__}: {error}", "failed", "release"
                else:
                    self._release_failed(run)
            except Exception as error:  # noqa: BLE001 - a try of the task has failed; Airflow tries again
                self.hub.say(f"run {run.number}, a try fails: {type(error).__name__}: {error}")
                if run.phase == "release":
                    self._release_failed(run)
                self.hub.sleep(30)
        run.outcome, run.state, run.phase = f"no end in {MOST_MOVES} moves", "failed", "over"
        self.problems.append(f"run {run.number} makes no progress")

    def _release_failed(self, run: Run) -> None:
        run.release_tries += 1
        if run.release_tries > 3:  # the teardown has failed: from here on the reaper is alone
            run.state = "success" if run.outcome == "done" else "failed"
            run.phase = "over"

    def _move(self, run: Run, driver: JobDriver, engine: Any, store: VirtualStore, ledger: PortLedger) -> None:
        if run.phase == "provision":
            found = driver.ensure_lease(run.capacity, reopen=True)
            self.hub.say(f"run {run.number} provisioned: {found}")
            if run.phase == "provision":
                run.phase = "train"
        elif run.phase == "train":
            suspect, run.suspect = run.suspect, None
            step = driver.advance(run.call, run.capacity, lost_lease=suspect)
            self.hub.say(f"run {run.number}: {step}")
            if isinstance(step, Finished):
                run.result = step.result
                if run.phase == "train":
                    run.outcome, run.phase = "done", "release"
            elif isinstance(step, Delayed):
                self.hub.sleep(step.retry_after_s)
            else:
                run.suspect = self._watch(step, engine, store)
        else:
            self._release(run, driver, engine, store, ledger)
            if run.phase == "release":
                run.state = "success" if run.outcome == "done" else "failed"
                run.phase = "over"

    def _release(self, run: Run, driver: JobDriver, engine: Any, store: VirtualStore, ledger: PortLedger) -> None:
        from plimsoll.operators.provision_gpu import ReleaseGpuOperator

        operator = ReleaseGpuOperator(task_id="release", group="train")
        installation = SimpleNamespace(driver=driver, engine=engine, store=store, ledger=ledger)
        operator._release(SimpleNamespace(dag_id=run.dag_id, run_id=run.run_id), installation)

    def _watch(self, step: Waiting, engine: Any, store: VirtualStore) -> str | None:
        """As the trigger: until the job has ended, or lease and job are silent, or the instance is gone."""
        seen: tuple[Any, ...] = ()
        heard, began = self.hub.elapsed, self.hub.elapsed
        ask_at = self.hub.elapsed + 60
        while True:
            self.hub.sleep(10)
            try:
                beat = store.get_json(f"{step.base}/heartbeat.json") or {}
                lease = store.get_json(LeaseKeys(step.lease_id).heartbeat) or {}
            except Exception:  # noqa: BLE001 - no news is no silence
                heard = self.hub.elapsed
                continue
            if beat.get("state") == "exited" or lease.get("state") == "ended":
                return None
            now = (beat.get("sequence"), lease.get("sequence"))
            if now != seen:
                seen, heard = now, self.hub.elapsed
            limit = LOST_AFTER_S if lease else BOOT_WITHIN_S
            if self.hub.elapsed - heard > limit:
                return step.lease_id
            if step.look_again_s is not None and self.hub.elapsed - began > step.look_again_s:
                return None
            if self.hub.elapsed > ask_at:
                ask_at += 60
                try:
                    if engine.describe(step.lease_id).state is LeaseState.ENDED:
                        return step.lease_id
                except Exception:  # noqa: BLE001 - asked again in a minute
                    continue

    # --- what must hold --------------------------------------------------------------------------------------------

    def play(self) -> list[str]:
        """Live through it all; what is wrong afterwards."""
        self.hub.run(36 * HOUR_S, done=lambda: all(run.phase == "over" for run in self.runs))
        if unfinished := [run.number for run in self.runs if run.phase != "over"]:
            self.problems.append(f"runs {unfinished} are not over after 36 hours")
        # The reaper, expiry and the dead man have their time.
        self.quiet_since = self.hub.elapsed
        self.hub.run(self.hub.elapsed + 4 * HOUR_S, done=self._is_quiet)
        return [*self.problems, *leaks(self), *losses(self), *accounts(self)]

    def _is_quiet(self) -> bool:
        """Nothing lives on EC2, every process is done, and the reaper has passed since without an end of its own."""
        counters = self.double.counters
        alive = counters.get("instances_started", 0) - counters.get("instances_ended", 0)
        busy = any(actor.name != "reaper" for actor in self.hub.actors)
        if alive or busy or self.hub.elapsed < max((until for _, until, _ in self.content.outages), default=0):
            self.quiet_since = self.hub.elapsed
        return self.hub.elapsed - self.quiet_since > 2 * REAP_EVERY_S


_template: list[Path] = []


def play(seed: int, folder: Path | None = None) -> tuple[World, list[str]]:
    """One sequence; the world and what is wrong with it."""
    if not _template:
        _template.append(Path(tempfile.mkdtemp(prefix="plimsoll-faults-")) / "empty.db")
        migrate(f"sqlite:///{_template[0]}")
    with tempfile.TemporaryDirectory(prefix="plimsoll-faults-") as made:
        place = folder or Path(made)
        shutil.copy(_template[0], place / "ledger.db")
        world = World(seed, place)
        try:
            return world, world.play()
        finally:
            world.ledger.dispose()


def story(world: World, wrong: list[str]) -> str:
    """What was planned, what happened, what is wrong, and how to see it again."""
    lines = [f"sequence {world.seed}", *(f"  {text}" for text in world.plan), *world.hub.log]
    lines += [f"outcome of run {run.number}: {run.outcome}" for run in world.runs]
    lines += [f"WRONG: {text}" for text in wrong] or ["all is well"]
    return "\n".join(
        [*lines, f"replay: PYTHONPATH=.:plugins .venv/bin/python -m tests.support.fault_world {world.seed}"]
    )


if __name__ == "__main__":
    print(story(*play(int(sys.argv[1]))))

"""The agent of an instance on virtual time: documents, reasons and exit codes of the real one, without processes."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import datetime
from typing import Any

from obstore.exceptions import GenericError

from include.compute.ec2.user_data import agent_configuration
from include.compute.lease_keys import LeaseKeys
from include.compute.lifeline import LONGEST_GRACE_S, Lifeline, notice_grace_s
from include.compute.spend_limit import SpendLimit
from include.core.clock import iso
from include.core.contracts.lease import JobTicket, LaunchRequest
from include.core.heartbeat import JobHeartbeat, LeaseHeartbeat
from include.core.json_codec import from_json, to_json
from stack.ec2_double import Instance, VirtualMachines
from tests.support.fault_hub import EPOCH, Hub, HubClock
from tests.support.fault_ports import VirtualStore

BEAT_S = 10.0
UNREACHABLE_S = 120.0
STEPS_PER_S = 1.0


class SimMachines(VirtualMachines):
    """Instances whose agents live in the hub."""

    def __init__(self, hub: Hub, store: VirtualStore, *, dead_man_s: float, record: Record) -> None:
        super().__init__(dead_man_s=dead_man_s)
        self.hub, self.store, self.record = hub, store, record
        self.agents: dict[str, SimAgent] = {}

    def start(self, instance: Instance, *, at: datetime) -> None:
        super().start(instance, at=at)
        self.agents[instance.instance_id] = SimAgent(self, instance)

    def notice(self, instance: Instance, *, at: datetime, until: datetime) -> None:
        super().notice(instance, at=at, until=until)
        if agent := self.agents.get(instance.instance_id):
            agent.notice_until = (until - EPOCH).total_seconds()

    def shut_down(self, instance: Instance, *, at: datetime) -> None:
        super().shut_down(instance, at=at)
        if agent := self.agents.get(instance.instance_id):
            agent.sigterm()

    def power_off(self, instance: Instance, *, at: datetime) -> None:
        super().power_off(instance, at=at)
        if agent := self.agents.get(instance.instance_id):
            agent.dead = True


class Record:
    """What happened on instances, for the invariants."""

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}  # run prefix -> last committed step
        self.results: dict[str, str] = {}  # run prefix -> base of the attempt that wrote a result
        self.begun_after_result: list[str] = []
        self.resumed: list[tuple[str, int, int]] = []  # base, resumed at, committed by then


class SimAgent:
    """One agent; every turn is one event, so its writes of a turn are seen together."""

    def __init__(self, machines: SimMachines, instance: Instance) -> None:
        self.machines, self.hub, self.store = machines, machines.hub, machines.store
        self.instance = instance
        self.clock = HubClock(self.hub)
        self.random = random.Random(f"{self.hub.seed} {len(machines.agents)}")
        self.keys = LeaseKeys(agent_configuration(instance.user_data).lease_id)
        self.dead = self.hung = self.owns = self.left = False
        self.notice_until: float | None = None
        self.sequence = 0
        self.job: SimJob | None = None
        self.heard_at = self.hub.elapsed
        self.lifeline: Lifeline | None = None
        self.hub.after(self.random.uniform(1, 20), self.turn)

    def turn(self) -> None:
        if self.dead or self.left or self.hung:
            return
        try:
            self._work()
            self.heard_at = self.hub.elapsed
        except GenericError:
            if self.hub.elapsed - self.heard_at > UNREACHABLE_S:
                self._leave("unreachable", job_exit=-15)
        if not (self.dead or self.left):
            if self.hub.elapsed - self.heard_at <= UNREACHABLE_S:
                self.machines.touch(self.instance.instance_id, at=self.clock.now())
            self.hub.after(BEAT_S, self.turn)

    def _work(self) -> None:
        stop = self.store.get_json(self.keys.stop)
        if not self.owns:
            self._take(stop)
            if not self.owns:
                return
        assert self.lifeline is not None
        self._mind(stop)
        if self.left:
            return
        if self.job is None:
            self._take_job()
        elif self.job.turn():
            self.job = None
        if self.job is not None:
            self.lifeline.worked()
        self._beat("busy" if self.job else "idle")

    def _take(self, stop: Any) -> None:
        spec = from_json(LaunchRequest, self.store.get_json(self.keys.spec))
        mine = {"instance": self.instance.instance_id, "born": iso(self.clock.now())}
        if stop is not None or not self._own(mine):
            self._go(last_word=False)
        else:
            self.owns = True
            self.lifeline = Lifeline(
                clock=self.clock, expires_after_s=spec.expires_after_s, idle_s=spec.idle_s, extends=True
            )
            self.limit = SpendLimit(limit_usd=spec.spend_limit_usd, usd_per_h=self.instance.usd_per_h)

    def _own(self, mine: dict[str, str]) -> bool:
        return self.store.create_json(self.keys.owner, mine) or self.store.get_json(self.keys.owner) == mine

    def _mind(self, stop: Any) -> None:
        assert self.lifeline is not None
        grace = stop.get("grace_s") if isinstance(stop, dict) else None
        if reason := self.lifeline.reason_to_leave(stopped=stop is not None and not grace):
            self._leave(reason, job_exit=self.random.choice((75, -15)))
        elif self.notice_until is not None:
            left_s = self.notice_until - self.hub.elapsed
            saved = notice_grace_s(left_s) > 10 and self.random.random() < 0.9
            self._leave("preempted", job_exit=75 if saved else -9)
        elif grace:
            saved = min(grace, LONGEST_GRACE_S) > 10
            self._leave(str(stop.get("reason") or "stopped"), job_exit=75 if saved else -9)
        elif self.limit.reached(self.lifeline.age_s):
            self._leave("budget", job_exit=75)

    def sigterm(self) -> None:
        """The operating system shuts down: last words where the store takes them."""
        if not (self.dead or self.left or self.hung) and self.owns:
            try:
                self._leave("sigterm", job_exit=-15)
            except GenericError:
                self.left = True

    def _take_job(self) -> None:
        for key, _ in self.store.list(self.keys.queue):
            name = key.rpartition("/")[2]
            if self.store.create_json(self.keys.claim(name), {"instance": self.instance.instance_id}):
                self.job = SimJob(self, from_json(JobTicket, self.store.get_json(self.keys.ticket(name))))
                return

    def _beat(self, state: str, reason: str = "") -> None:
        assert self.lifeline is not None
        self.sequence += 1
        end = self.lifeline.next_end()
        beat = LeaseHeartbeat(
            sequence=self.sequence,
            at=iso(self.clock.now()),
            state=state,
            reason=reason,
            expires_at=self.clock.now().timestamp() + end - self.hub.elapsed,
        )
        self.store.put_json(self.keys.heartbeat, to_json(beat))
        self.lifeline.announced(end)

    def _leave(self, reason: str, *, job_exit: int) -> None:
        self.hub.say(f"agent of {self.keys.lease_id} leaves: {reason}, its job {job_exit if self.job else 'none'}")
        if self.job is not None:
            with suppress(GenericError):  # its last words are lost then
                self.job.end(job_exit)
            self.job = None
        self._go(last_word=self.owns, reason=reason)

    def _go(self, *, last_word: bool, reason: str = "") -> None:
        self.left = True
        if last_word:
            with suppress(GenericError):
                self._beat("ended", reason)
        self.machines.exit(self.instance.instance_id, at=self.clock.now())


class SimJob:
    """One attempt of a training."""

    def __init__(self, agent: SimAgent, ticket: JobTicket) -> None:
        self.agent, self.hub, self.store, self.base = agent, agent.hub, agent.store, ticket.base
        self.order = self.store.get_json(f"{ticket.base}/request.json")
        self.prefix = ticket.base.rpartition("/jobs/")[0]
        record = agent.machines.record
        if self.prefix in record.results:
            record.begun_after_result.append(f"{ticket.base} after {record.results[self.prefix]}")
        self.began = self.turned = self.hub.elapsed
        self.resumed = self.step = self._newest_commit()
        record.resumed.append((ticket.base, self.resumed, record.commits.get(self.prefix, 0)))
        self.committed = self.step
        self.sequence = 0
        self.dies_at = self.order["dies_at"].pop(0) if self.order["dies_at"] else None
        self.hub.say(f"{ticket.name} begins at step {self.step:.0f} on {agent.keys.lease_id}")
        self._beat()

    def _newest_commit(self) -> float:
        found = [0]
        for key, _ in self.store.list(f"{self.prefix}/checkpoints"):
            if key.endswith("/COMMIT.json"):
                found.append(int(self.store.get_json(key)["step"]))
        return float(max(found))

    def turn(self) -> bool:
        """Go on; True when the job is over."""
        self.step += (self.hub.elapsed - self.turned) * STEPS_PER_S
        self.turned = self.hub.elapsed
        if self.dies_at is not None and self.step > self.dies_at:
            self.dies_at = None
            self.end(-9, commit=False)
            return True
        if self.step >= self.order["steps"]:
            self.step = self.order["steps"]
            self._commit()
            self.store.put_json(f"{self.base}/result.json", {"step": self.step, "base": self.base})
            self.agent.machines.record.results[self.prefix] = self.base
            self._beat(0)
            return True
        if self.step - self.committed >= self.order["interval"]:
            self._commit()
        self._beat()
        return False

    def end(self, exit_code: int, *, commit: bool = True) -> None:
        if exit_code == 75 and commit:
            self._commit()
        self._steps()
        self._beat(exit_code)

    def _commit(self) -> None:
        step = int(self.step)
        name = f"{self.prefix}/checkpoints/step-{step}-{self.base.rpartition('-')[2]}/COMMIT.json"
        self.store.create_json(name, {"step": step})
        self.committed = step
        record = self.agent.machines.record
        record.commits[self.prefix] = max(step, record.commits.get(self.prefix, 0))
        self._steps()

    def _steps(self) -> None:
        document = {
            "last_executed_step": int(self.step),
            "resumed_step": int(self.resumed),
            "committed_step": int(self.committed),
            "useful_s": self.step - self.resumed,
        }
        self.store.put_json(f"{self.base}/steps.json", document)

    def _beat(self, exit_code: int | None = None) -> None:
        self.sequence += 1
        total = self.order["steps"]
        beat = JobHeartbeat(
            sequence=self.sequence,
            at=iso(self.agent.clock.now()),
            state="running" if exit_code is None else "exited",
            exit_code=exit_code,
            progress={"fraction": self.step / total, "step": int(self.step), "total": total},
        )
        self.store.put_json(f"{self.base}/heartbeat.json", json.loads(json.dumps(to_json(beat))))

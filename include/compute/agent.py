"""The agent: runs the jobs of one lease, one at a time, and ends by itself. Identical on a laptop and on EC2.

Usage: ``python -m include.compute.agent <lease-id> [--emulate-metadata]``; the environment carries the settings.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from include.carbon.meter import MeterMode
from include.catalog.local import THIS_MACHINE
from include.compute.accounts import LeaseAccounts
from include.compute.agent_job import JobRun
from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import MetadataClient, NoticeWatch, endpoint_of
from include.compute.job_queue import JobQueue
from include.compute.lease_beat import LeaseBeat
from include.compute.lease_keys import LeaseKeys
from include.compute.lifeline import Lifeline
from include.compute.orphans import adopt_orphans
from include.compute.pace import Pace
from include.compute.store_link import StoreLink
from include.config.settings import Settings
from include.core.clock import Clock, SystemClock, iso
from include.core.contracts.lease import JobTicket, LaunchRequest
from include.core.errors import UserError
from include.core.json_codec import from_json
from include.core.process import own_identity
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.agent")

JOB_COMMAND = (sys.executable, "-m", "include.jobs")
# What EC2 gives; the drill gives the same.
DRILL_NOTICE_S = 120.0
_DRILL_TICK_S = 0.05
# Every document of an agent is small; a call that takes longer fails, and the job is watched meanwhile.
STORE_PATIENCE_S = 5.0


class Agent:
    """Owns one lease.

    Args:
        spec: The lease as it was launched.
        store: Where the lease's documents are.
        settings: Settings of the installation.
        emulate_metadata: Serve the metadata protocol in this process, for a machine without an endpoint of its own.
        job_command: Program that runs a job; kind and request URI are appended.
        pace: Intervals and graces.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        spec: LaunchRequest,
        store: ObjectStore,
        settings: Settings,
        emulate_metadata: bool = False,
        job_command: Sequence[str] = JOB_COMMAND,
        pace: Pace | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._job_command = job_command
        self._keys = LeaseKeys(spec.lease_id)
        self._store = store
        self._pace = pace or Pace.for_store(store.url)
        if spec.drill_notice_at is not None:
            # A drill has to hit the middle of a training that may last a second.
            self._pace = replace(self._pace, tick_s=min(self._pace.tick_s, _DRILL_TICK_S))
        self._clock = clock or SystemClock()
        self._link = StoreLink(store, self._clock)
        self._lifeline = Lifeline(clock=self._clock, expires_after_s=spec.expires_after_s, idle_s=spec.idle_s)
        self._accounts = LeaseAccounts.of(
            spec,
            mode=cast("MeterMode", settings.energy_meter),
            shared_machine=spec.instance_type == THIS_MACHINE,
        )
        self._emulator = MetadataEmulator(_facts(spec)) if emulate_metadata else None
        self._endpoint = self._emulator.url if self._emulator else endpoint_of(os.environ)
        self._watch = NoticeWatch(MetadataClient(self._endpoint), every_s=self._pace.metadata_s)
        owner = own_identity().to_json()
        self._owner = owner
        self._queue = JobQueue(keys=self._keys, link=self._link, owner=owner)
        self._beat = LeaseBeat(
            keys=self._keys,
            link=self._link,
            accounts=self._accounts,
            lifeline=self._lifeline,
            pace=self._pace,
            clock=self._clock,
        )
        self._stop_seen = False
        self._next_look = 0.0
        self._leaving: str | None = None

    def run(self) -> str:
        """Own the lease until there is a reason to leave.

        Returns:
            The reason; ``not mine`` when another agent owns the lease.
        """
        signal.signal(signal.SIGTERM, self._lifeline.on_signal)
        signal.signal(signal.SIGINT, self._lifeline.on_signal)
        if self._store.exists(self._keys.stop):
            return self._say_end("stopped")
        if self._emulator:
            self._emulator.start()
        if not self._take_ownership():
            return self._say_end("not mine")
        adopt_orphans()
        self._accounts.start()
        self._watch.start()
        _log.info("ready: lease %s, metadata %s", self._spec.lease_id, self._endpoint)
        try:
            reason = self._work()
            self._beat.last(reason)
        finally:
            self._accounts.stop()
            if self._emulator:
                self._emulator.stop()
        return self._say_end(reason)

    def _take_ownership(self) -> bool:
        document = {**self._owner, "metadata_url": self._endpoint, "born": iso(self._clock.now())}
        # Equal content after a refusal: our own write arrived although its answer did not.
        return self._store.create_json(self._keys.owner, document) or self._store.get_json(self._keys.owner) == document

    def _work(self) -> str:
        while True:
            self._beat.beat_if_due("idle")
            reason = self._reason_to_leave() or ("preempted" if self._watch.notice else None)
            if reason:
                return reason
            if self._looks_now() and (ticket := self._queue.take()):
                self._run_job(ticket)
                if self._leaving:
                    return self._leaving
                continue
            self._clock.sleep(self._pace.tick_s)

    def _run_job(self, ticket: JobTicket) -> None:
        run = JobRun(
            ticket=ticket,
            job_dir=self._settings.work_root / self._spec.lease_id / ticket.name,
            command=self._job_command,
            link=self._link,
            accounts=self._accounts,
            pace=self._pace,
            clock=self._clock,
        )
        _log.info("begin %s", ticket.name)
        exit_code = run.execute(self._while_busy)
        _log.info("end %s: exit %s, %.1f s, %.1f CPU s", ticket.name, exit_code, run.wall_s, run.tree.cpu_s)
        self._beat.job_ended(wall_s=run.wall_s, tree=run.tree)
        self._lifeline.worked()
        self._next_look = 0.0

    def _while_busy(self, run: JobRun) -> None:
        self._beat.beat_if_due("busy", job=run.ticket.name, job_wall_s=run.wall_s)
        self._lifeline.worked()
        self._drill(run)
        self._looks_now()
        if self._leaving not in {None, "preempted"}:
            return
        # An order to leave also cuts short the longer grace of a notice.
        if reason := self._reason_to_leave():
            self._leaving = reason
            _log.info("leaving while %s runs: %s", run.ticket.name, reason)
            run.end_soon()
        elif self._watch.notice and self._leaving is None:
            self._leaving = "preempted"
            _log.info("notice: %s at %s", self._watch.notice.action, self._watch.notice.at)
            run.give_notice(self._watch.notice)

    def _drill(self, run: JobRun) -> None:
        """Announce one notice to ourselves when the training has come far enough."""
        at = self._spec.drill_notice_at
        if at is None or self._emulator is None or run.ticket.kind != "train" or self._emulator.announced:
            return
        if run.fraction >= at:
            _log.info("interruption drill at %.0f %%", 100 * run.fraction)
            self._emulator.announce(DRILL_NOTICE_S)
            self._watch.ask_now()

    def _looks_now(self) -> bool:
        """Look at the stop mark when it is time to; True when it was."""
        if self._clock.monotonic() < self._next_look:
            return False
        self._next_look = self._clock.monotonic() + self._pace.control_s
        self._stop_seen = self._stop_seen or self._link.exists(self._keys.stop)
        return True

    def _reason_to_leave(self) -> str | None:
        if self._link.silent_s > self._pace.unreachable_s:
            return "unreachable"
        return self._lifeline.reason_to_leave(stopped=self._stop_seen)

    def _say_end(self, reason: str) -> str:
        times = os.times()
        _log.info("left: %s, own CPU %.2f s", reason, times.user + times.system)
        return reason


def _facts(spec: LaunchRequest) -> InstanceFacts:
    return InstanceFacts(
        instance_id=spec.lease_id,
        instance_type=spec.instance_type,
        life_cycle="spot" if spec.purchase == "spot" else "on-demand",
    )


def read_spec(store: ObjectStore, lease_id: str) -> LaunchRequest:
    """The launch request of a lease.

    Raises:
        UserError: Nobody has launched it.
    """
    value = store.get_json(LeaseKeys(lease_id).spec)
    if value is None:
        raise UserError("no such lease", found=lease_id, where=store.uri(LeaseKeys(lease_id).spec))
    return from_json(LaunchRequest, value)


def main(
    arguments: Sequence[str] | None = None, *, job_command: Sequence[str] = JOB_COMMAND, pace: Pace | None = None
) -> int:
    """Run an agent until it leaves.

    Args:
        arguments: Command line; None takes the process's own.
        job_command: Program that runs a job.
        pace: Intervals and graces; None takes those that suit the store.

    Returns:
        Exit status: 0, or 64 for a lease that nobody has launched.
    """
    parser = argparse.ArgumentParser(prog="plimsoll-agent", description="Runs the jobs of one lease.")
    parser.add_argument("lease_id")
    parser.add_argument("--emulate-metadata", action="store_true", help="serve the EC2 metadata protocol in-process")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    try:
        settings = Settings.from_environment()
        store = ObjectStore(settings.store, patience_s=STORE_PATIENCE_S)
        spec = read_spec(store, options.lease_id)
    except UserError as error:
        _log.error("%s", error)
        return 64
    agent = Agent(
        spec=spec,
        store=store,
        settings=settings,
        emulate_metadata=options.emulate_metadata,
        job_command=job_command,
        pace=pace,
    )
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

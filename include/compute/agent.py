"""The agent: runs the jobs of one lease, one at a time, and ends by itself. Identical on a laptop and on EC2.

Usage: ``python -m include.compute.agent <lease-id> [--emulate-metadata]``; the environment carries the settings. A
lease of several instances has one agent on each; the first one takes the jobs, and all of them run its trainings.
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
from include.compute.accounts import LeaseAccounts, as_launched
from include.compute.agent_job import JobRun
from include.compute.departures import Departure, Departures
from include.compute.gang import GANG_KINDS, Gang, take_rank
from include.compute.imds_client import LINK_LOCAL, MetadataClient, NoticeWatch
from include.compute.job_queue import JobQueue
from include.compute.lease_beat import LeaseBeat
from include.compute.lease_keys import LeaseKeys
from include.compute.lifeline import Lifeline
from include.compute.orphans import adopt_orphans
from include.compute.pace import Pace
from include.compute.spend_limit import SpendLimit
from include.compute.store_link import StoreLink
from include.compute.surroundings import Surroundings, surroundings
from include.config.settings import Settings
from include.core.clock import iso
from include.core.contracts.lease import JobTicket, LaunchRequest
from include.core.errors import UserError
from include.core.json_codec import from_json
from include.core.node_place import NodePlace
from include.core.process import own_identity
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.agent")

JOB_COMMAND = (sys.executable, "-m", "include.jobs")
# What EC2 gives; the drill gives the same.
DRILL_NOTICE_S = 120.0
_DRILL_TICK_S = 0.05
# Every document of an agent is small; a call that takes longer fails, and the job is watched meanwhile.
STORE_PATIENCE_S = 5.0
# The engine whose leases end at the time they were launched with, whatever happens.
_FIXED_END = "local"


class Agent:
    """Works for one lease on one node.

    Args:
        spec: The lease as it was launched.
        around: Where the agent runs.
        lifeline: Its life, which listens to signals already.
        rank: Number of the node.
        owner: Identity document of the agent, written into claims.
    """

    def __init__(
        self, *, spec: LaunchRequest, around: Surroundings, lifeline: Lifeline, rank: int, owner: dict[str, object]
    ) -> None:
        self._spec = spec
        self._around = around
        self._pace, self._clock, self._lifeline, self._rank = around.pace, around.clock, lifeline, rank
        self._emulator = around.emulator
        keys = LeaseKeys(spec.lease_id)
        self._link = StoreLink(around.store, self._clock)
        terms = as_launched(spec, around.instance)
        self._accounts = LeaseAccounts.of(
            terms,
            mode=cast("MeterMode", around.settings.energy_meter),
            shared_machine=terms.instance_type == THIS_MACHINE,
        )
        self._watch = NoticeWatch(MetadataClient(around.endpoint), every_s=self._pace.metadata_s)
        self._queue = JobQueue(keys=keys, link=self._link, owner=owner)
        self._gang = self._gather(keys) if spec.instances > 1 else None
        self._beat = LeaseBeat(
            key=keys.beat_of(rank),
            link=self._link,
            accounts=self._accounts,
            lifeline=lifeline,
            pace=self._pace,
            clock=self._clock,
            alive=around.alive,
            others=self._gang.usages if self._gang and rank == 0 else None,
        )
        # One account is enough: the first node speaks for the whole lease.
        limit_usd = spec.spend_limit_usd if rank == 0 else None
        self._limit = SpendLimit(limit_usd=limit_usd, usd_per_h=self._accounts.usd_per_h)
        self._departures = Departures(
            keys=keys,
            link=self._link,
            lifeline=lifeline,
            watch=self._watch,
            limit=self._limit,
            pace=self._pace,
            clock=self._clock,
        )
        self._unpublished: JobTicket | None = None
        self._leaving: str | None = None
        self._ending = False
        self._told: set[str] = set()

    def run(self) -> str:
        """Work until there is a reason to leave; returns it."""
        adopt_orphans()
        self._accounts.start()
        self._watch.start()
        _log.info(
            "ready: lease %s, node %d of %d, metadata %s",
            self._spec.lease_id,
            self._rank,
            self._spec.instances,
            self._around.endpoint,
        )
        try:
            reason = self._work()
            self._lifeline.leave()
            self._beat.last(reason)
            self._say_overspend()
        finally:
            self._accounts.stop()
        return reason

    def _gather(self, keys: LeaseKeys) -> Gang:
        assert self._around.instance.address is not None
        return Gang(
            rank=self._rank,
            nodes=self._spec.instances,
            address=self._around.instance.address,
            keys=keys,
            link=self._link,
            pace=self._pace,
            clock=self._clock,
        )

    def _work(self) -> str:
        while True:
            self._beat.rebalance_at = self._watch.rebalance_at
            self._beat.beat_if_due("idle")
            looked = self._departures.look()
            if departure := self._departures.any() or self._gang_departure():
                return departure.reason
            if looked and (found := self._next_job()):
                self._run_job(*found)
                if self._leaving:
                    return self._leaving
                continue
            self._clock.sleep(self._pace.tick_s)

    def _gang_departure(self) -> Departure | None:
        if self._gang is None:
            return None
        self._gang.watch()
        if self._rank > 0 or not self._gang.complete:
            # Whether there is work is for the first node to say, and it has to wait until all are there.
            self._lifeline.worked()
        return self._gang.departure()

    def _next_job(self) -> tuple[JobTicket, NodePlace | None] | None:
        gang = self._gang
        if gang is None:
            return None if (ticket := self._queue.take()) is None else (ticket, None)
        if self._rank > 0:
            return gang.take()
        ticket = self._unpublished
        if ticket is None and (not gang.complete or (ticket := self._queue.take()) is None):
            return None
        place = gang.publish(ticket) if ticket.kind in GANG_KINDS else None
        # A job of all nodes that they were not told of is told again at the next turn.
        self._unpublished = ticket if place is None and ticket.kind in GANG_KINDS else None
        return None if self._unpublished else (ticket, place)

    def _run_job(self, ticket: JobTicket, place: NodePlace | None) -> None:
        folder = self._around.settings.work_root / self._spec.lease_id
        run = JobRun(
            ticket=ticket,
            # Nodes of one lease may share a disk.
            job_dir=(folder / f"node-{self._rank}" if self._rank else folder) / ticket.name,
            command=self._around.job_command,
            link=self._link,
            accounts=self._accounts,
            pace=self._pace,
            clock=self._clock,
            place=place,
            hold_at=self._drill_at(ticket),
        )
        _log.info("begin %s", ticket.name)
        exit_code = run.execute(self._while_busy)
        _log.info("end %s: exit %s, %.1f s, %.1f CPU s", ticket.name, exit_code, run.wall_s, run.tree.cpu_s)
        self._beat.job_ended(wall_s=run.wall_s, tree=run.tree)
        self._lifeline.worked()
        self._departures.look_soon()
        if self._leaving is None and place is not None and self._gang and (heard := self._gang.heard(ticket)):
            # It had reached the training on another node before this agent heard of it.
            self._leaving = heard.reason

    def _while_busy(self, run: JobRun) -> None:
        self._beat.beat_if_due("busy", job=run.ticket.name, job_wall_s=run.wall_s)
        self._lifeline.worked()
        self._drill(run)
        self._pass_advice_on(run)
        looked = self._departures.look()
        if self._ending:
            return
        if departure := self._departures.at_once() or self._gang_departure():
            self._leave(departure)
            self._ending = True
            _log.info("leaving while %s runs: %s", run.ticket.name, departure.reason)
            run.end_soon()
        elif departure := self._departures.after_notice() or (self._heard(run) if looked else None):
            self._notify(run, departure)

    def _heard(self, run: JobRun) -> Departure | None:
        return None if self._gang is None or run.place is None else self._gang.heard(run.ticket)

    def _notify(self, run: JobRun, departure: Departure) -> None:
        """Give the job notice, once for each reason, and tell the other nodes that run it."""
        if self._gang is not None and run.place is not None:
            self._gang.pass_on(departure, run.ticket)
        if departure.reason in self._told:
            return
        self._told.add(departure.reason)
        _log.info("notice: %s, %s %s", departure.reason, departure.action, departure.at)
        if self._leaving is None:
            self._leave(departure)
        run.give_notice(departure)

    def _leave(self, departure: Departure) -> None:
        self._leaving = departure.reason
        self._lifeline.leave()

    def _pass_advice_on(self, run: JobRun) -> None:
        """A rebalance recommendation: save now and keep running. Whether to move is for others to decide."""
        self._beat.rebalance_at = self._watch.rebalance_at
        if self._watch.rebalance_at is not None and "rebalance" not in self._told:
            self._told.add("rebalance")
            _log.info("rebalance recommendation of %s", self._watch.rebalance_at)
            run.checkpoint_now()

    def _drill_at(self, ticket: JobTicket) -> float | None:
        """The fraction of a job at which it is to be interrupted, None for no drill or one that has been."""
        if ticket.kind != "train" or self._watch.notice is not None:
            return None
        # On a machine of EC2 itself nobody injects a notice, so nothing is waited for.
        return None if self._around.endpoint == LINK_LOCAL else self._spec.drill_notice_at

    def _drill(self, run: JobRun) -> None:
        """Announce one notice to ourselves when the training has come far enough; it waits for it there."""
        at = self._drill_at(run.ticket)
        if at is None or self._emulator is None or self._emulator.announced:
            return
        if run.fraction >= at:
            _log.info("interruption drill at %.0f %%", 100 * run.fraction)
            self._emulator.announce(DRILL_NOTICE_S)
            self._watch.ask_now()

    def _say_overspend(self) -> None:
        if (over := self._limit.overspend(self._lifeline.age_s)) is not None:
            _log.info(
                "ended %.2f s after its limit of %s USD, overspent %s USD", over[0], self._spec.spend_limit_usd, over[1]
            )


def own_lease(spec: LaunchRequest, around: Surroundings) -> str:
    """Own the lease, or a node of it, until there is a reason to leave.

    Returns:
        The reason; ``not mine`` when other agents have all of the lease.
    """
    lifeline = Lifeline(
        clock=around.clock,
        expires_after_s=spec.expires_after_s,
        idle_s=spec.idle_s,
        extends=spec.engine != _FIXED_END,
        longest_s=spec.longest_s,
    )
    signal.signal(signal.SIGTERM, lifeline.on_signal)
    signal.signal(signal.SIGINT, lifeline.on_signal)
    keys = LeaseKeys(spec.lease_id)
    if around.store.exists(keys.stop):
        return "stopped"
    if spec.instances > 1 and around.instance.address is None:
        _log.error("the metadata endpoint tells no address by which the other nodes could reach this one")
        return "no address"
    owner = own_identity().to_json()
    born = {"metadata_url": around.endpoint, "born": iso(around.clock.now()), "address": around.instance.address}
    rank = take_rank(around.store, keys, instances=spec.instances, document={**owner, **born})
    if rank is None:
        return "not mine"
    return Agent(spec=spec, around=around, lifeline=lifeline, rank=rank, owner=owner).run()


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
    pace = pace or Pace.for_store(store.url)
    if spec.drill_notice_at is not None:
        # A drill has to hit the middle of a training that may last a second.
        pace = replace(pace, tick_s=min(pace.tick_s, _DRILL_TICK_S))
    with surroundings(
        spec,
        store=store,
        settings=settings,
        emulate_metadata=options.emulate_metadata,
        job_command=job_command,
        pace=pace,
    ) as around:
        reason = own_lease(spec, around)
    times = os.times()
    _log.info("left: %s, own CPU %.2f s", reason, times.user + times.system)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One attempt of a job as the agent sees it: a child process, its log, its heartbeat, its last words."""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from include.compute.accounts import LeaseAccounts
from include.compute.departures import Departure
from include.compute.environment import allowed_environment
from include.compute.log_chunks import LogShipper
from include.compute.orphans import end_descendants
from include.compute.pace import Pace
from include.compute.process_usage import TreeUsage, tree_usage
from include.compute.store_link import StoreLink
from include.core.clock import Clock, iso
from include.core.contracts.lease import JobTicket
from include.core.exit_codes import ExitCode
from include.core.heartbeat import JobHeartbeat
from include.core.ids import log_chunk_key
from include.core.json_codec import to_json
from include.core.json_file import write_json
from include.core.node_place import NodePlace
from include.core.process import die_with_parent, identify, kill_tree

_log = logging.getLogger("plimsoll.agent")
# Tells a training to save soon and to go on.
CHECKPOINT_NOW = "checkpoint-now"
# Tells a training in a drill to wait for the notice.
DRILL_HOLD = "drill-hold.json"


class JobRun:
    """Runs one attempt. Used from the agent's main thread only: the kernel binds a child's lifeline to the thread.

    Args:
        ticket: The attempt.
        job_dir: Its private folder; removed at the end, since all that matters is in the store.
        command: Program of the job; kind and request URI are appended.
        link: The store.
        accounts: Terms of the lease.
        pace: Intervals and graces.
        clock: Source of time.
        place: This node among those that run the attempt together, None for a job on one node.
        hold_at: Fraction of the training from which it waits for the notice of a drill; None outside of drills.
    """

    def __init__(
        self,
        *,
        ticket: JobTicket,
        job_dir: Path,
        command: Sequence[str],
        link: StoreLink,
        accounts: LeaseAccounts,
        pace: Pace,
        clock: Clock,
        place: NodePlace | None = None,
        hold_at: float | None = None,
    ) -> None:
        self.ticket = ticket
        self._hold_at = hold_at
        self.place = place
        self.tree = TreeUsage()
        self._rank = 0 if place is None else place.rank
        self._beat_key = f"{ticket.base}/heartbeat{f'-{self._rank}' if self._rank else ''}.json"
        self._dir = job_dir
        self._command = (*command, ticket.kind, ticket.request_uri)
        self._link = link
        self._accounts = accounts
        self._pace = pace
        self._clock = clock
        self._began = clock.monotonic()
        self._sequence = 0
        self._next_beat = 0.0
        self._kill_at: float | None = None
        self._progress: dict[str, Any] = {}

    @property
    def wall_s(self) -> float:
        """Seconds since the attempt began."""
        return self._clock.monotonic() - self._began

    @property
    def fraction(self) -> float:
        """How far the job says it is, 0..1."""
        value = self._progress.get("fraction")
        return float(value) if isinstance(value, int | float) else 0.0

    def execute(self, each_turn: Callable[[JobRun], None]) -> int:
        """Run the attempt to its end.

        Args:
            each_turn: Called several times a second while the job runs; may call `give_notice` or `end_soon`.

        Returns:
            The exit code, negative for death by a signal.
        """
        try:
            process, shipper = self._start()
        except OSError as error:
            return self._end_unstarted(error)
        exits = os.pidfd_open(process.pid)
        try:
            exit_code = self._attend(process, exits, shipper, each_turn)
        finally:
            os.close(exits)
            end_descendants()
        self._last_words(exit_code, shipper)
        shutil.rmtree(self._dir, ignore_errors=True)
        return exit_code

    def give_notice(self, departure: Departure) -> None:
        """Tell the job that its capacity goes away, and arm the deadline; an earlier deadline stays."""
        left_s = self._kill_within(departure.grace_s or 0.0)
        _log.info("%s has %.0f s to commit", self.ticket.name, left_s)
        document = {"action": departure.action, "time": departure.at, "grace_s": round(left_s, 1)}
        try:
            write_json(self._dir / "notice.json", document)
        except OSError as error:
            _log.warning("no notice could be written, sending SIGTERM instead: %s", error)
            self._process.terminate()

    def checkpoint_now(self) -> None:
        """Ask the job to save soon and to go on. What it cannot be told is told by its next regular checkpoint."""
        try:
            (self._dir / CHECKPOINT_NOW).touch()
        except OSError as error:
            _log.warning("%s could not be asked for a checkpoint: %s", self.ticket.name, error)

    def end_soon(self) -> None:
        """SIGTERM now, SIGKILL after the grace."""
        self._kill_within(self._pace.term_grace_s)
        self._process.terminate()

    def _kill_within(self, seconds: float) -> float:
        now = self._clock.monotonic()
        self._kill_at = now + seconds if self._kill_at is None else min(self._kill_at, now + seconds)
        return max(0.0, self._kill_at - now)

    def _start(self) -> tuple[subprocess.Popen[bytes], LogShipper]:
        shutil.rmtree(self._dir, ignore_errors=True)
        self._dir.mkdir(parents=True)
        if self._hold_at is not None:
            write_json(self._dir / DRILL_HOLD, {"at": self._hold_at})
        output = self._dir / "output.log"
        environment = allowed_environment(os.environ) | {
            "PLIMSOLL_JOB_DIR": str(self._dir),
            "PYTHONUNBUFFERED": "1",
            **({} if self.place is None else self.place.to_environment()),
        }
        with output.open("wb") as sink:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the only way that holds before the child's first line
            )
        shipper = LogShipper(
            path=output, base=self.ticket.base, link=self._link, clock=self._clock, node_rank=self._rank
        )
        return self._process, shipper

    def _attend(
        self,
        process: subprocess.Popen[bytes],
        exits: int,
        shipper: LogShipper,
        each_turn: Callable[[JobRun], None],
    ) -> int:
        watcher = select.poll()
        watcher.register(exits, select.POLLIN)
        while not watcher.poll(1000 * self._pace.tick_s):
            self._read_progress()
            shipper.ship()
            if self._clock.monotonic() >= self._next_beat:
                self.tree = tree_usage(process.pid).at_least(
                    cpu_s=self.tree.cpu_s, max_rss_bytes=self.tree.max_rss_bytes
                )
                self._beat(chunks=shipper.chunks)
            each_turn(self)
            self._kill_if_overdue(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        # The kernel's total lacks descendants that the job did not wait for; the last look has them.
        self.tree = self.tree.at_least(cpu_s=usage.ru_utime + usage.ru_stime, max_rss_bytes=1024 * usage.ru_maxrss)
        return process.returncode

    def _kill_if_overdue(self, pid: int) -> None:
        if self._kill_at is None or self._clock.monotonic() < self._kill_at:
            return
        identity = identify(pid)
        if identity is not None:
            _log.warning("%s did not end in its grace, killing it", self.ticket.name)
            kill_tree(identity)

    def _read_progress(self) -> None:
        try:
            value = json.loads((self._dir / "progress.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if isinstance(value, dict):
            self._progress = value

    def _beat(self, *, chunks: int, exit_code: int | None = None) -> bool:
        self._sequence += 1
        self._next_beat = self._clock.monotonic() + self._pace.beat_s
        beat = JobHeartbeat(
            sequence=self._sequence,
            at=iso(self._clock.now()),
            state="running" if exit_code is None else "exited",
            exit_code=exit_code,
            progress=self._progress,
            chunks=chunks,
            usage=self._accounts.usage(wall_s=self.wall_s, tree=self.tree),
            spend_usd=self._accounts.spend(self.wall_s),
        )
        return self._link.put_json(self._beat_key, to_json(beat))

    def _last_words(self, exit_code: int, shipper: LogShipper) -> None:
        self._read_progress()
        self._insist(lambda: shipper.ship(final=True))
        shipper.close()
        self._insist(lambda: self._beat(chunks=shipper.chunks, exit_code=exit_code))

    def _end_unstarted(self, error: OSError) -> int:
        """The job folder or the program could not be used, for example on a full disk."""
        _log.error("%s could not be started: %s", self.ticket.name, error)
        text = f"the agent could not start the job: {error} (work folder {self._dir})\n"
        told = self._link.create(log_chunk_key(self.ticket.base, 1, node_rank=self._rank), text.encode())
        self._insist(lambda: self._beat(chunks=int(told), exit_code=ExitCode.ERROR))
        return ExitCode.ERROR

    def _insist(self, action: Callable[[], bool]) -> None:
        deadline = self._clock.monotonic() + self._pace.final_patience_s
        while not action() and self._clock.monotonic() < deadline:
            self._clock.sleep(self._pace.beat_s)

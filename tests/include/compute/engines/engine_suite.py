"""What every engine must do. A test class of an engine inherits this and provides the fixture ``bench``.

``bench`` is a `Bench` whose engine starts agents that run the fake job program; `agents` counts the living agents.
"""

from __future__ import annotations

import pytest

from include.core.contracts.lease import JobPhase, LeaseState
from include.core.errors import GroupClosedError
from tests.support.lease_bench import Bench
from tests.support.waiting import eventually


class EngineSuite:
    """Behaviours of the port."""

    def agents(self, bench: Bench) -> int:
        """Number of living agents that the engine has started."""
        raise NotImplementedError

    def test_three_launches_of_one_token_make_one_agent(self, bench: Bench):
        for _ in range(3):
            bench.engine.launch(bench.request())
        eventually(lambda: bench.state("train-abc-g1") is LeaseState.RUNNING)
        eventually(lambda: self.agents(bench) == 1, what="one agent is left")
        assert [lease.lease_id for lease in bench.engine.find()] == ["train-abc-g1"]

    def test_a_job_goes_from_queued_to_exited_and_runs_once(self, bench: Bench):
        lease = bench.engine.launch(bench.request()).lease_id
        base = bench.submit(lease, steps=4, step_s=0.1)
        seen = [bench.engine.poll(lease, base).phase]
        ticket_key = f"leases/{lease}/queue/compress-1"
        ticket = bench.store.get(ticket_key)

        state = eventually(
            lambda: seen.append((now := bench.engine.poll(lease, base)).phase) or (now.phase is JobPhase.EXITED and now)
        )

        assert list(dict.fromkeys(seen)) == [JobPhase.QUEUED, JobPhase.RUNNING, JobPhase.EXITED]
        assert (state.exit_code, state.result) == (0, {"kind": "compress"})
        bench_again = Bench(bench.engine, bench.store)
        bench_again.submit(lease, exit=3)  # the same name: the first request holds
        assert bench.store.get(ticket_key) == ticket
        other = bench.submit(lease, kind="evaluate", exit=3)
        bench.wait_phase(lease, other, JobPhase.EXITED)
        assert bench.engine.poll(lease, base).exit_code == 0

    def test_a_failed_job_reports_its_exit_code_and_its_log(self, bench: Bench):
        lease = bench.launch()
        base = bench.submit(lease, exit=64, say="column 'age' is missing")
        state = bench.wait_phase(lease, base, JobPhase.EXITED)
        assert (state.exit_code, state.result) == (64, None)
        assert "column 'age' is missing" in bench.log(base)

    def test_stop_ends_the_job_and_is_idempotent(self, bench: Bench):
        lease = bench.launch()
        base = bench.submit(lease, steps=400, step_s=0.05)
        bench.working(lease, base)
        assert bench.engine.stop(lease, reason="test") == "stopped"
        assert self.agents(bench) == 0
        assert bench.engine.poll(lease, base).exit_code == 75
        assert bench.engine.stop(lease, reason="again") == "stopped"
        with pytest.raises(GroupClosedError):
            bench.engine.launch(bench.request())
        assert self.agents(bench) == 0

    def test_release_ends_the_leases_of_its_group_only(self, bench: Bench):
        bench.launch("train-abc", 1)
        bench.launch("train-abc", 2)
        bench.launch("work-abc", 1)
        assert {lease.lease_id for lease in bench.engine.find(group_id="train-abc")} == {"train-abc-g1", "train-abc-g2"}

        report = bench.engine.release("train-abc")

        assert report.ended == {"train-abc-g1": "stopped", "train-abc-g2": "stopped"}
        assert report.left == ()
        states = {lease.lease_id: lease.state for lease in bench.engine.find()}
        assert states == {
            "train-abc-g1": LeaseState.ENDED,
            "train-abc-g2": LeaseState.ENDED,
            "work-abc-g1": LeaseState.RUNNING,
        }
        assert bench.engine.release("train-abc").left == ()

    def test_release_before_the_agent_is_up_leaves_nothing(self, bench: Bench):
        lease = bench.engine.launch(bench.request()).lease_id
        assert bench.engine.release("train-abc").left == ()
        assert bench.state(lease) is LeaseState.ENDED
        assert self.agents(bench) == 0

    def test_stop_before_launch_forbids_the_launch(self, bench: Bench):
        assert bench.engine.stop("train-abc-g1", reason="released early") == "never started"
        with pytest.raises(GroupClosedError):
            bench.engine.launch(bench.request())
        assert bench.state("train-abc-g1") is LeaseState.ENDED

    def test_a_job_on_a_lease_that_ended_is_lost(self, bench: Bench):
        lease = bench.launch()
        bench.engine.stop(lease, reason="test")
        base = bench.submit(lease)
        state = bench.engine.poll(lease, base)
        assert state.phase is JobPhase.LOST
        assert "before the job began" in state.reason

    def test_an_unknown_lease_is_starting(self, bench: Bench):
        lease = bench.engine.describe("train-never-g3")
        assert (lease.state, lease.group_id) == (LeaseState.STARTING, "train-never")

    def test_a_lease_carries_its_owner_and_its_end(self, bench: Bench):
        lease = bench.engine.describe(bench.launch())
        assert (lease.dag_id, lease.run_id, lease.group_id) == ("digits", "run-1", "train-abc")
        assert lease.expires_at is not None

    def test_there_is_an_offer(self, bench: Bench):
        offers = bench.engine.offers(None)
        assert offers
        assert {offer.engine for offer in offers} == {bench.engine.name}

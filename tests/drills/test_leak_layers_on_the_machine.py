"""The first layer against leaks, alone: the machine ends itself, and nobody else is there. Agents are processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.compute.reap_plan import ReapLimits
from include.compute.reaper import reap
from include.core.clock import SystemClock
from include.core.contracts.lease import JobTicket
from plimsoll.triggers import job_trigger
from plimsoll.triggers.job_trigger import JobTrigger
from stack.ec2_double.agent_host import AgentHost
from tests.support import fake_agent
from tests.support.leak_site import LeakSite
from tests.support.waiting import eventually

pytestmark = [pytest.mark.drill, pytest.mark.integration]
AGENT = (sys.executable, str(Path(fake_agent.__file__)))
NEVER = 3600.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LeakSite]:
    """Instances that run the real agent. Whoever else might end them is never called."""
    host = AgentHost(tmp_path / "machines", command=AGENT, dead_man_s=3.0)
    site = LeakSite(folder=tmp_path, clock=SystemClock(), machines=host, boot_s=0.0, shutdown_s=0.3)
    site.request_over |= {"idle_s": NEVER, "expires_after_s": NEVER}
    yield site
    site.double.close()


def up(site: LeakSite) -> str:
    """A lease whose agent beats."""
    lease = site.rent()
    heartbeat = f"leases/{lease}/heartbeat.json"
    eventually(lambda: site.double.tick() or site.store.exists(heartbeat), within_s=30, what="the agent beats")
    return lease


def agent_of(site: LeakSite) -> int:
    (pid,) = site.double.machines.pids.values()
    return pid


def submit(site: LeakSite, lease: str, *, seconds: float = 60.0) -> None:
    """Queue a job that would go on for long."""
    base = "runs/digits/r/jobs/compress-1"
    request = {"kind": "compress", "base": base, "attempt": 1, "steps": int(seconds / 0.05), "step_s": 0.05}
    ticket = JobTicket(
        name="r.compress-1", kind="compress", base=base, request_uri=site.store.uri(f"{base}/request.json")
    )
    site.installation().engine.submit(lease, ticket, request)
    eventually(lambda: site.store.exists(f"{base}/heartbeat.json"), within_s=20, what="the job runs")


def assert_ended_by_itself(site: LeakSite) -> None:
    """All is over without a call to EC2; what is open in the ledger is settled by the next pass, which ends nothing."""
    eventually(lambda: site.double.tick() or not site.living(), within_s=30, what="the instance is terminated")
    report = reap(site.holdings(stop_grace_s=0.1), run_state=lambda dag, run: "failed", limits=ReapLimits())
    assert not report.failed
    # The one is the dry run by which the launch has looked for the permission.
    assert site.terminations() == 1
    site.assert_clean()


def test_an_idle_agent_leaves(site):
    site.request_over["idle_s"] = 1.0
    up(site)
    assert_ended_by_itself(site)


def test_an_expired_agent_leaves_its_job_too(site):
    site.request_over["longest_s"] = 6.0
    lease = up(site)
    submit(site, lease)
    assert_ended_by_itself(site)
    assert site.store.get_json(f"leases/{lease}/heartbeat.json")["reason"] == "expired"


def test_a_machine_whose_agent_hangs_is_ended_by_its_dead_man(site):
    lease = up(site)
    submit(site, lease)
    os.kill(agent_of(site), signal.SIGSTOP)
    assert_ended_by_itself(site)


def test_a_machine_whose_agent_is_killed_goes_at_once(site):
    lease = up(site)
    submit(site, lease)
    os.kill(agent_of(site), signal.SIGKILL)
    assert_ended_by_itself(site)


def test_a_machine_whose_store_is_gone_ends_itself(site):
    lease = up(site)
    submit(site, lease)
    leases, hidden = site.folder / "store" / "leases", site.folder / "hidden"
    leases.rename(hidden)
    leases.write_text("no folder any more")
    eventually(lambda: site.double.tick() or not site.living(), within_s=30, what="the instance is terminated")
    leases.unlink()
    hidden.rename(leases)
    assert_ended_by_itself(site)


def test_the_trigger_of_a_deferred_task_that_is_killed_asks_the_agent_to_leave(site, monkeypatch):
    """The second layer for deferred tasks, alone: Airflow runs only the trigger's own code."""
    lease = up(site)
    submit(site, lease)
    monkeypatch.setenv("PLIMSOLL_STORE", site.store.url)
    monkeypatch.setattr(job_trigger, "_GRACE_S", 0.1)
    site.store.put_json(f"leases/{lease}/watch.json", {"nonce": "n1"})
    trigger = JobTrigger(base="runs/digits/r/jobs/compress-1", lease_id=lease, lost_after_s=30.0, nonce="n1")
    asyncio.run(trigger.on_kill())
    assert_ended_by_itself(site)


def test_the_trigger_leaves_a_task_alone_that_somebody_has_taken_up_again(site, monkeypatch):
    lease = up(site)
    monkeypatch.setenv("PLIMSOLL_STORE", site.store.url)
    monkeypatch.setattr(job_trigger, "_GRACE_S", 0.1)
    site.store.put_json(f"leases/{lease}/watch.json", {"nonce": "n2"})
    trigger = JobTrigger(base="runs/digits/r/jobs/compress-1", lease_id=lease, lost_after_s=30.0, nonce="n1")
    asyncio.run(trigger.on_kill())
    time.sleep(1.0)
    site.double.tick()
    assert len(site.living()) == 1
    assert not site.store.exists(f"leases/{lease}/stop.json")

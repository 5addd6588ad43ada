"""Break the agent, the job or the lease on purpose, and look at what is left."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import ENDPOINT_VARIABLE
from include.compute.process_usage import descendants
from include.compute.stop_all import main, stop_all
from include.config.settings import Settings
from include.core.contracts.lease import JobPhase, LeaseState
from include.core.process import ProcessIdentity, identify
from include.core.store import ObjectStore
from tests.support.lease_bench import Bench, alive, open_local_bench
from tests.support.waiting import eventually

pytestmark = [pytest.mark.drill, pytest.mark.integration]
LONG = {"steps": 2000, "step_s": 0.05}


@pytest.fixture
def bench(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> Iterator[Bench]:
    with open_local_bench(file_store, settings_for(file_store)) as bench:
        yield bench


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataEmulator]:
    """A metadata endpoint outside the agent, as on EC2."""
    emulator = MetadataEmulator(InstanceFacts(instance_id="i-1", instance_type="g5.xlarge", life_cycle="spot"))
    emulator.start()
    monkeypatch.setenv(ENDPOINT_VARIABLE, emulator.url)
    yield emulator
    emulator.stop()


def job_process(bench: Bench, lease: str) -> ProcessIdentity:
    """The job's own process, the agent's only child."""
    identity = identify(next(descendants(bench.agent(lease).pid)))
    assert identity is not None
    return identity


def test_kill_9_of_the_agent_leaves_nothing_and_the_job_is_lost(bench):
    lease = bench.launch()
    base = bench.submit(lease, child=True, **LONG)
    bench.working(lease, base)
    tree = bench.tree(lease)
    assert len(tree) == 3  # agent, job, its worker in a session of its own

    os.kill(bench.agent(lease).pid, signal.SIGKILL)

    eventually(lambda: not alive(tree), within_s=2.0, what="the whole tree is gone")
    state = bench.engine.poll(lease, base)
    assert state.phase is JobPhase.LOST
    assert "died while the job ran" in state.reason
    assert bench.beat(base)["state"] == "running"  # nobody was left to say otherwise
    assert bench.engine.release("train-abc").ended == {lease: "lost"}
    assert not (bench.work_folder(lease) / "compress-1").exists()


def test_kill_9_of_the_job_is_reported_and_the_lease_lives_on(bench):
    lease = bench.launch()
    base = bench.submit(lease, child=True, **LONG)
    bench.working(lease, base)
    agent, *below = bench.tree(lease)

    os.kill(job_process(bench, lease).pid, signal.SIGKILL)

    state = bench.wait_phase(lease, base, JobPhase.EXITED)
    assert state.exit_code == -signal.SIGKILL
    assert not alive(below)
    assert alive([agent])
    again = bench.submit(lease)
    assert bench.wait_phase(lease, again, JobPhase.EXITED).exit_code == 0


def test_processes_that_a_job_leaves_behind_end_with_it(bench):
    lease = bench.launch()
    base = bench.submit(lease, orphan=True, steps=30, step_s=0.05)
    bench.working(lease, base)
    tree = eventually(lambda: found if len(found := bench.tree(lease)) == 3 else None, what="the orphan is adopted")
    assert bench.wait_phase(lease, base, JobPhase.EXITED).exit_code == 0
    assert alive(tree) == [bench.agent(lease)]


def test_an_agent_that_hangs_is_killed_with_its_tree(bench):
    lease = bench.launch()
    base = bench.submit(lease, child=True, **LONG)
    bench.working(lease, base)
    tree = bench.tree(lease)
    os.kill(bench.agent(lease).pid, signal.SIGSTOP)

    assert bench.engine.stop(lease, reason="silent") == "killed"

    assert not alive(tree)
    assert bench.state(lease) is LeaseState.ENDED


def test_sigterm_to_the_agent_lets_the_job_commit(bench):
    lease = bench.launch()
    base = bench.submit(lease, **LONG)
    bench.working(lease, base)
    tree = bench.tree(lease)

    os.kill(bench.agent(lease).pid, signal.SIGTERM)

    assert bench.ended(lease) == "sigterm"
    assert bench.engine.poll(lease, base).exit_code == 75
    assert "SIGTERM" in bench.log(base)
    assert not alive(tree)


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(bench):
    lease = bench.launch()
    base = bench.submit(lease, deaf=True, child=True, **LONG)
    bench.working(lease, base)
    tree = bench.tree(lease)
    assert bench.engine.stop(lease, reason="test") == "stopped"
    assert bench.engine.poll(lease, base).exit_code == -signal.SIGKILL
    assert not alive(tree)


def test_a_notice_reaches_the_job_and_ends_the_lease(emulator, bench):
    lease = bench.launch(purchase="spot")
    base = bench.submit(lease, **LONG)
    bench.working(lease, base)
    emulator.announce(120)
    assert bench.ended(lease) == "preempted"
    assert bench.engine.poll(lease, base).exit_code == 75
    assert "notice" in bench.log(base)


def test_a_job_that_ignores_the_notice_is_killed_before_the_capacity_goes(emulator, bench):
    lease = bench.launch(purchase="spot")
    base = bench.submit(lease, deaf=True, **LONG)
    bench.working(lease, base)
    emulator.announce(3)
    assert bench.ended(lease, within_s=5) == "preempted"
    assert bench.engine.poll(lease, base).exit_code == -signal.SIGKILL


def test_an_order_to_leave_cuts_the_grace_of_a_notice_short(emulator, bench):
    lease = bench.launch(purchase="spot")
    base = bench.submit(lease, deaf=True, **LONG)
    bench.working(lease, base)
    emulator.announce(120)
    output = bench.work_folder(lease) / "agent.out"
    eventually(lambda: "to commit" in output.read_text(), what="the job was given notice")
    assert bench.engine.stop(lease, reason="test") == "stopped"
    assert bench.engine.poll(lease, base).exit_code == -signal.SIGKILL


def test_a_notice_ends_an_idle_lease_at_once(emulator, bench):
    lease = bench.launch(purchase="spot")
    emulator.announce(120)
    assert bench.ended(lease, within_s=3) == "preempted"


def stop_with_grace(bench: Bench, lease: str, **document: object) -> None:
    bench.store.put_json(f"leases/{lease}/stop.json", document)


def test_an_order_to_leave_with_a_grace_is_a_notice(bench):
    lease = bench.launch()
    base = bench.submit(lease, **LONG)
    bench.working(lease, base)
    stop_with_grace(bench, lease, reason="cheaper elsewhere", grace_s=60)
    assert bench.ended(lease) == "cheaper elsewhere"
    assert bench.engine.poll(lease, base).exit_code == 75
    assert "notice" in bench.log(base)
    assert "SIGTERM" not in bench.log(base)


@pytest.mark.long
def test_a_job_that_ignores_such_an_order_is_killed_after_its_grace(bench):
    lease = bench.launch()
    base = bench.submit(lease, deaf=True, child=True, **LONG)
    bench.working(lease, base)
    tree = bench.tree(lease)
    stop_with_grace(bench, lease, reason="cheaper elsewhere", grace_s=1)
    assert bench.ended(lease, within_s=5) == "cheaper elsewhere"
    assert bench.engine.poll(lease, base).exit_code == -signal.SIGKILL
    assert not alive(tree)


@pytest.mark.long
def test_a_later_order_without_grace_ends_the_job_at_once(bench):
    lease = bench.launch()
    base = bench.submit(lease, deaf=True, **LONG)
    bench.working(lease, base)
    stop_with_grace(bench, lease, reason="cheaper elsewhere", grace_s=60)
    output = bench.work_folder(lease) / "agent.out"
    eventually(lambda: "to commit" in output.read_text(), what="the job was given notice")
    stop_with_grace(bench, lease, reason="released")
    assert bench.ended(lease, within_s=5) == "stopped"


def test_a_spent_limit_is_a_notice_and_the_overspend_is_told(bench):
    # One cent in two seconds.
    lease = bench.launch(usd_per_h="18", spend_limit_usd="0.01")
    base = bench.submit(lease, **LONG)
    assert bench.ended(lease) == "budget"
    assert bench.engine.poll(lease, base).exit_code == 75
    assert "notice" in bench.log(base)
    output = (bench.work_folder(lease) / "agent.out").read_text()
    reaction = re.search(r"limit of 0.01 USD was spent ([\d.]+) s ago", output)
    assert reaction is not None
    assert float(reaction[1]) < 2 * 0.5  # two beats of these tests
    over = re.search(r"ended ([\d.]+) s after its limit of 0.01 USD, overspent ([\d.]+) USD", output)
    assert over is not None
    assert float(over[2]) == pytest.approx(float(over[1]) * 18 / 3600, abs=0.0001)
    assert float(bench.lease_beat(lease)["spend_usd"]) == pytest.approx(0.01 + float(over[2]), abs=0.005)


def test_advice_to_move_saves_and_does_not_end_the_job(emulator, bench):
    lease = bench.launch(purchase="spot")
    base = bench.submit(lease, steps=60, step_s=0.05)
    bench.working(lease, base)
    emulator.recommend_rebalance()
    eventually(lambda: bench.lease_beat(lease)["rebalance_at"], what="it is shown in the heartbeat")
    assert bench.wait_phase(lease, base, JobPhase.EXITED).exit_code == 0
    assert "going on" in bench.log(base)
    assert bench.state(lease) is LeaseState.RUNNING


def test_a_rented_lease_lives_on_while_all_is_well(bench, tmp_path, monkeypatch):
    alive_file = tmp_path / "alive"
    monkeypatch.setenv("PLIMSOLL_ALIVE_FILE", str(alive_file))
    began = time.time()
    lease = bench.launch(engine="ec2", expires_after_s=2.0)
    base = bench.submit(lease, **LONG)
    bench.working(lease, base)
    eventually(lambda: (bench.lease_beat(lease)["expires_at"] or 0) > began + 5, what="its end has moved on twice")
    assert bench.state(lease) is LeaseState.RUNNING
    assert alive_file.stat().st_mtime > time.time() - 2
    os.kill(bench.agent(lease).pid, signal.SIGSTOP)
    hung = alive_file.stat().st_mtime_ns
    time.sleep(1.0)
    assert alive_file.stat().st_mtime_ns == hung  # the machine's own watchdog would end it
    assert bench.engine.stop(lease, reason="test") == "killed"


def test_a_rented_lease_ends_at_its_bound(bench):
    lease = bench.launch(engine="ec2", expires_after_s=1.0, longest_s=3.0)
    base = bench.submit(lease, **LONG)
    began = time.monotonic()
    assert bench.ended(lease) == "expired"
    assert time.monotonic() - began > 1.5
    assert bench.engine.poll(lease, base).exit_code == 75


def test_the_drill_interrupts_a_training_once_it_has_come_far_enough(bench):
    lease = bench.launch(drill_notice_at=0.5)
    other = bench.submit(lease, kind="compress", steps=4, step_s=0.05)
    assert bench.wait_phase(lease, other, JobPhase.EXITED).exit_code == 0
    base = bench.submit(lease, kind="train", steps=40, step_s=0.05)
    assert bench.ended(lease) == "preempted"
    assert bench.engine.poll(lease, base).exit_code == 75
    assert 20 <= bench.beat(base)["progress"]["step"] < 40


def test_a_lease_expires_although_its_job_still_runs(bench):
    lease = bench.launch(expires_after_s=2.0)
    base = bench.submit(lease, **LONG)
    bench.working(lease, base)
    assert bench.ended(lease) == "expired"
    assert bench.engine.poll(lease, base).exit_code == 75


def test_an_idle_lease_leaves_by_itself(bench):
    began = time.monotonic()
    lease = bench.launch(idle_s=1.0)
    assert bench.ended(lease, within_s=5) == "idle"
    assert time.monotonic() - began > 1.0


def test_two_launches_that_race_make_one_agent(bench, file_store, settings_for):
    with open_local_bench(file_store, settings_for(file_store)) as other:
        threads = [threading.Thread(target=each.engine.launch, args=(each.request(),)) for each in (bench, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda: bench.state("train-abc-g1") is LeaseState.RUNNING)
        output = bench.work_folder("train-abc-g1") / "agent.out"
        # The launches either saw each other, or the second agent found the lease owned and left.
        eventually(lambda: output.read_text().count("ready:") == 1)
        base = bench.submit("train-abc-g1")
        assert bench.wait_phase("train-abc-g1", base, JobPhase.EXITED).exit_code == 0
        assert output.read_text().count("ready:") == 1
        assert output.read_text().count("begin compress-1") == 1


def test_a_second_agent_of_the_same_lease_leaves_at_once(bench):
    lease = bench.launch()
    owner = bench.agent(lease)
    bench.store.delete(f"leases/{lease}/launching.json")
    second = bench.start_agent_again(lease)
    assert second.wait(timeout=10) == 0
    assert bench.agent(lease) == owner
    assert alive([owner])


def test_stop_all_ends_every_agent_of_the_installation(bench, file_store, settings_for, monkeypatch, caplog):
    leases = [bench.launch("train-abc"), bench.launch("work-abc")]
    base = bench.submit(leases[0], **LONG)
    bench.working(leases[0], base)
    agents = [bench.agent(lease) for lease in leases]

    settings = settings_for(file_store)
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.INFO)
    assert main(["--dry-run"]) == 1
    assert all(f"lease {lease}: running, run run-1 of digits" in caplog.text for lease in leases)

    report = stop_all(file_store, settings)

    assert report.ended == dict.fromkeys(leases, "stopped")
    assert report.left == ()
    assert not alive(agents)
    assert main([]) == 0
    assert "0 ended, 0 left" in caplog.text


def test_an_unwritable_job_folder_is_the_jobs_end_not_the_agents(bench):
    lease = bench.launch()
    blocker = bench.work_folder(lease) / "compress-1"
    blocker.mkdir()
    (blocker / "kept").mkdir()
    bench.work_folder(lease).joinpath("compress-2").write_text("a file where a folder should be")
    first = bench.submit(lease)
    assert bench.wait_phase(lease, first, JobPhase.EXITED).exit_code == 0  # left over by an earlier crash: removed
    second = bench.submit(lease)
    assert bench.wait_phase(lease, second, JobPhase.EXITED).exit_code == 1
    assert "could not start the job" in bench.log(second)
    assert bench.state(lease) is LeaseState.RUNNING


def test_an_agent_that_cannot_reach_its_store_ends_its_job_and_leaves(s3_environment, settings_for, monkeypatch):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1").create_bucket(Bucket="outage")
    store = ObjectStore("s3://outage/store")
    with open_local_bench(store, settings_for(store)) as bench:
        lease = bench.launch()
        base = bench.submit(lease, child=True, **LONG)
        bench.working(lease, base)
        tree, output = bench.tree(lease), bench.work_folder(lease) / "agent.out"
        server.stop()
        eventually(lambda: not alive(tree), within_s=20, what="the agent has given up")
        assert "left: unreachable" in output.read_text()
        assert "end compress-1: exit 75" in output.read_text()
        bench.forget()


def test_a_job_sees_the_allowed_environment_and_its_usage_is_counted(bench, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "secret")
    lease = bench.launch(usd_per_h="3.6", idle_w=10.0, peak_w=40.0, gco2e_per_kwh=400.0)
    base = bench.submit(lease, spin_s=0.8)
    bench.wait_phase(lease, base, JobPhase.EXITED)
    seen = bench.store.get_json(f"{base}/environment.json")
    assert "AIRFLOW__API_AUTH__JWT_SECRET" not in seen
    assert seen["PLIMSOLL_STORE"] == bench.store.url
    beat = bench.beat(base)
    assert 0.8 <= beat["usage"]["cpu_s"] < 5.0
    assert float(beat["spend_usd"]) == pytest.approx(0.001 * beat["usage"]["wall_s"], rel=0.01)
    assert beat["usage"]["energy"]["kwh"] > 0
    bench.engine.stop(lease, reason="test")
    whole = bench.lease_beat(lease)
    assert whole["busy_s"] == pytest.approx(beat["usage"]["wall_s"], abs=0.2)
    assert whole["usage"]["cpu_s"] > beat["usage"]["cpu_s"]
    assert float(whole["spend_usd"]) > float(beat["spend_usd"])

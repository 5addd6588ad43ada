"""Four layers keep rented capacity from leaking. Each of them alone, with the other three disabled, ends all of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from include.compute.cancel import cancel_run
from include.compute.reap_plan import ReapLimits
from include.compute.reaper import reap
from include.compute.settlement import settle_lease
from include.core.contracts.lease import LeaseState
from include.core.errors import GroupClosedError
from plimsoll.operators import provision_gpu
from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from tests.support.leak_site import DAG_ID, GROUP, RUN_ID, LeakSite
from tests.support.task_context import FakeTaskInstance, context

pytestmark = [pytest.mark.drill, pytest.mark.integration]


@pytest.fixture
def site(tmp_path: Path) -> LeakSite:
    """Instances that never end by themselves: the layer on the machine is off. The others act only when called."""
    return LeakSite(folder=tmp_path)


def rented(site: LeakSite, **names: str) -> str:
    lease = site.rent(**names)
    site.wait(600)
    assert [each.state.value for each in site.living()] == ["running"]
    return lease


def task_instance() -> FakeTaskInstance:
    return FakeTaskInstance(dag_id=DAG_ID, run_id=RUN_ID)


def one_pass(site: LeakSite, state: str | None = "failed", **options):
    values = {"run_state": lambda dag, run: state, "limits": ReapLimits(), "clock": site.clock} | options
    report = reap(site.holdings(), **values)
    site.wait(120)
    return report


class TestOperator:
    """The second layer: a killed task ends what it has launched."""

    def test_a_setup_that_is_killed_ends_its_lease(self, site, monkeypatch):
        monkeypatch.setattr(provision_gpu, "connect", site.installation)
        rented(site)
        task = ProvisionGpuOperator(task_id="provision", group="train")
        task._group_id = GROUP
        task.on_kill()
        site.wait(60)
        site.assert_clean()

    def test_a_setup_that_is_killed_before_its_launch_was_recorded_ends_it(self, site, monkeypatch):
        monkeypatch.setattr(provision_gpu, "connect", site.installation)
        intent = site.ledger.intent(group_id=GROUP, dag_id=DAG_ID, run_id=RUN_ID)
        site.installation().engine.launch(site.capacity().launch(intent.lease_id, 1))
        site.wait(600)
        task = ProvisionGpuOperator(task_id="provision", group="train")
        task._group_id = GROUP
        task.on_kill()
        site.wait(60)
        site.assert_clean()


class TestTeardown:
    """The third layer: the release finds what the group has by its tag."""

    @pytest.fixture(autouse=True)
    def _connected(self, site, monkeypatch):
        monkeypatch.setattr(provision_gpu, "connect", site.installation)

    @staticmethod
    def release(site: LeakSite) -> None:
        ReleaseGpuOperator(task_id="release", group="train").execute(context(task_instance()))
        site.wait(60)

    def test_a_release_ends_the_lease(self, site):
        rented(site)
        self.release(site)
        site.assert_clean()

    def test_a_release_after_a_launch_that_nobody_recorded_finds_it(self, site):
        intent = site.ledger.intent(group_id=GROUP, dag_id=DAG_ID, run_id=RUN_ID)
        site.installation().engine.launch(site.capacity().launch(intent.lease_id, 1))
        site.wait(600)
        self.release(site)
        site.assert_clean()

    def test_a_release_without_any_document_of_the_lease_finds_it_by_tag(self, site):
        rented(site)
        shutil.rmtree(site.folder / "store" / "leases")
        self.release(site)
        assert site.living() == []

    def test_the_next_lease_is_refused(self, site):
        rented(site)
        self.release(site)
        with pytest.raises(GroupClosedError):
            site.installation().driver.ensure_lease(site.capacity())


class TestReaper:
    """The fourth layer: the reaper finds it by tag, by expiry and by the state of its run."""

    def test_a_lease_of_a_run_that_is_over(self, site):
        lease = rented(site)
        assert one_pass(site, "running").ended == {}
        report = one_pass(site)
        assert report.ended == {lease: "its run is failed"}
        assert not report.failed
        site.assert_clean()
        assert one_pass(site).ended == {}

    def test_an_expired_lease_of_a_run_that_nobody_can_ask_for(self, site):
        lease = rented(site)
        site.wait(3600)
        assert one_pass(site, None).ended == {lease: "expired"}
        site.assert_clean()

    def test_a_launch_that_nobody_recorded(self, site):
        intent = site.ledger.intent(group_id=GROUP, dag_id=DAG_ID, run_id=RUN_ID)
        site.installation().engine.launch(site.capacity().launch(intent.lease_id, 1))
        site.wait(600)
        assert one_pass(site).ended == {intent.lease_id: "its run is failed"}
        site.assert_clean()

    def test_a_lease_that_ledger_and_store_have_lost(self, site, tmp_path):
        lease = rented(site)
        fresh = LeakSite(folder=site.folder, settings_over={"ledger": f"sqlite:///{tmp_path / 'fresh.db'}"})
        fresh.double, fresh.clock = site.double, site.clock
        shutil.rmtree(site.folder / "store" / "leases")
        assert one_pass(fresh).ended == {lease: "its run is failed"}
        assert site.living() == []
        # Should the launch be tried again: nobody may.
        with pytest.raises(GroupClosedError):
            fresh.installation().engine.launch(fresh.capacity().launch(lease, 1))

    def test_an_older_generation_beside_a_newer_one_of_a_live_run(self, site):
        old = rented(site)
        # A recovery that took the old one for dead, wrongly.
        site.ledger.ended(group_id=GROUP, lease_id=old, reason="found dead")
        new = site.rent()
        site.wait(600)
        assert len(site.living()) == 2
        assert list(one_pass(site, "running").ended) == [old]
        assert [each.tags["plimsoll:lease"] for each in site.living()] == [new]
        one_pass(site)
        site.assert_clean()

    def test_an_instance_that_outlived_its_recorded_end_is_charged_when_it_is_gone(self, site):
        lease = rented(site)
        (instance,) = site.living()
        # A release that EC2 did not obey has written the end, and could not say yet what it costs.
        described = site.installation().engine.describe(lease)
        settle_lease(store=site.store, ledger=site.ledger, lease_id=lease, reason="released", lease=described)
        assert site.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID) == ()
        site.double.machines.exit(instance.instance_id, at=site.clock.now())
        site.wait(60)
        assert one_pass(site, "running").ended == {lease: "its end is written and its charge is not"}
        site.assert_clean()
        assert one_pass(site).ended == {}

    def test_an_instance_that_ec2_refuses_to_end_fails_the_pass_until_it_is_gone(self, site):
        lease = rented(site)
        (instance,) = site.living()
        instance.protected = True
        report = one_pass(site)
        assert "OperationNotPermitted" in report.failed
        instance.protected = False
        assert one_pass(site).ended == {lease: "its run is failed"}
        site.assert_clean()

    def test_only_what_expired_ends_while_the_store_is_gone_and_the_rest_is_settled_later(self, site, monkeypatch):
        expired = rented(site)
        site.wait(3600)
        other = site.rent(group="train-other", run_id="other")
        site.wait(60)
        with monkeypatch.context() as broken:
            broken.setattr("include.compute.holdings.Holdings.store_answers", lambda self: "gone")
            report = one_pass(site)
        assert report.ended == {expired: "expired"}
        assert report.failed == "gone"
        assert [each.tags["plimsoll:lease"] for each in site.living()] == [other]
        assert set(one_pass(site).ended) == {expired, other}
        assert len(site.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID)) == 1
        assert site.living() == []
        assert site.ledger.open_leases() == ()

    def test_another_installation_of_the_account_is_never_touched(self, site, tmp_path):
        lease = rented(site)
        other = LeakSite(folder=tmp_path / "other")
        other.double, other.clock = site.double, site.clock
        assert one_pass(other).ended == {}
        assert [each.tags["plimsoll:lease"] for each in site.living()] == [lease]


class TestCancel:
    """One action over all layers, and its proof."""

    def cancel(self, site: LeakSite, **options):
        values = {"mark_failed": lambda: "marked failed", "clock": site.clock} | options
        return cancel_run(site.holdings(), dag_id=DAG_ID, run_id=RUN_ID, **values)

    def test_a_running_lease(self, site):
        lease = rented(site)
        report = self.cancel(site)
        assert report.proved, report.lines()
        assert list(report.ended) == [lease]
        site.assert_clean()
        assert self.cancel(site).ended == {}

    def test_a_pending_instance(self, site):
        site.rent()
        assert self.cancel(site).proved
        assert site.living() == []
        assert site.ledger.open_leases() == ()

    def test_a_recovery_that_holds_an_intent_cannot_launch(self, site):
        intent = site.ledger.intent(group_id=GROUP, dag_id=DAG_ID, run_id=RUN_ID)
        assert self.cancel(site).proved
        with pytest.raises(GroupClosedError):
            site.installation().engine.launch(site.capacity().launch(intent.lease_id, 1))
        with pytest.raises(GroupClosedError):
            site.installation().driver.ensure_lease(site.capacity())
        assert site.double.instances() == ()

    def test_what_a_racing_recovery_launches_after_its_own_look_is_ended(self, site):
        """The recovery passed its last check before the cancellation wrote the stop; EC2 answers it meanwhile."""
        intent = site.ledger.intent(group_id=GROUP, dag_id=DAG_ID, run_id=RUN_ID)
        engine = site.installation().engine
        late = []

        def mark_failed() -> str:
            engine.launch(site.capacity().launch(intent.lease_id, 1))
            late.append(intent.lease_id)
            return "marked failed"

        report = self.cancel(site, mark_failed=mark_failed)
        assert late
        assert report.proved
        assert site.living() == []
        assert engine.describe(intent.lease_id).state is LeaseState.ENDED

    def test_checkpoints_stay(self, site):
        rented(site)
        key = "runs/digits/x/checkpoints/train/step-1/manifest.json"
        site.store.put_json(key, {})
        assert self.cancel(site).proved
        assert site.store.exists(key)

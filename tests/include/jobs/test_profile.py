"""The profile job as a process, on both stores, and its part that runs the user's factory."""

from __future__ import annotations

import pytest
from torch import nn

from include.core.contracts.demand import Demand
from include.core.errors import UserError
from include.core.json_codec import from_json, to_json
from include.data.manifest import read_manifest
from include.jobs import profile as profile_job
from include.jobs import profile_model
from include.training.data_position import DataOrder
from include.training.models import transformer
from tests.support.jobs import build_request, workload
from tests.support.training import tiny_workload, write_dataset


def test_profile_finds_the_demand_of_the_training(any_store, run_job):
    request = build_request("profile", order=tiny_workload(), dataset=write_dataset(any_store))
    done = run_job("profile", request, any_store)
    assert done.exit_code == 0, done.log
    demand = from_json(Demand, done.result["demand"])
    # 16 inputs -> 16 hidden -> 3 classes, fp32
    assert demand.parameters == 16 * 16 + 16 + 16 * 3 + 3
    assert demand.memory.parameters_bytes == 4 * demand.parameters
    assert demand.steps == 3 * 4  # 100 rows in batches of 32 make 4 steps
    assert 0 < demand.cpu_s_per_step < 1
    assert demand.host_ram_bytes > 10**8  # torch alone takes more
    assert demand.loader_samples_per_core_s > 100
    assert "measured" in demand.method
    assert "estimated" in demand.method
    assert demand.cases == ()  # what goes through XCom is small
    whole = from_json(Demand, any_store.get_json(any_store.key_of(done.result["demand_uri"])))
    found = {(case.precision, case.recompute, case.shard) for case in whole.cases}
    assert {("fp32", "off", 1), ("bf16", "block", 8), ("fp16", "selective", 1)} <= found


def test_a_factory_that_never_returns_is_ended_and_told(file_store, context_for, monkeypatch):
    monkeypatch.setattr(profile_job, "TRACER", "tests.support.bad_factories:never_returns")
    request = build_request("profile", order=tiny_workload(), dataset=write_dataset(file_store))
    with pytest.raises(UserError, match=r"takes too long.*found: no end after 1 s.*PROFILE_TIMEOUT_S"):
        profile_job.run(context_for(request, file_store, profile_timeout_s=1.0))


@pytest.fixture
def profile(file_store, monkeypatch, tmp_path):
    """Run the part that knows the model, in this process; other factories may stand in for the workload's."""

    def run(*, order, factory=None):
        request = build_request("profile", order=order, dataset=write_dataset(file_store))
        if factory is not None:
            monkeypatch.setattr(profile_model, "build_model", lambda *_, **__: factory())
        found = profile_model.find_demand(
            {
                "request": request.model_dump(mode="json"),
                "manifest": to_json(read_manifest(file_store, request.dataset.uri)),
                "threads": 1,
                "most_memory_bytes": 2**33,
                "loader_samples_per_core_s": None,
                "dcgm_url": "http://127.0.0.1:9/metrics",
                "folder": str(tmp_path),
            }
        )
        return from_json(Demand, found["demand"])

    return run


def test_a_model_that_does_not_take_the_data_is_bad_input(profile):
    with pytest.raises(UserError, match="CNN needs images"):  # the rows are 16 numbers
        profile(order=workload("digits"))


def test_a_model_with_the_wrong_output_is_bad_input(profile):
    with pytest.raises(UserError, match=r"not one logit per class.*\(2, 7\).*\(2, 3\)"):
        profile(order=tiny_workload(), factory=lambda: nn.Linear(16, 7))


def test_a_model_that_takes_another_shape_is_bad_input(profile):
    with pytest.raises(UserError, match="does not take the data"):
        profile(order=tiny_workload(), factory=lambda: nn.Linear(99, 3))


def test_a_model_that_looks_at_its_values_is_bad_input(profile):
    class Curious(nn.Linear):
        def forward(self, rows):
            return super().forward(rows) if rows.sum().item() > 0 else rows

    with pytest.raises(UserError, match=r"does not take the data.*may not depend on values"):
        profile(order=tiny_workload(), factory=lambda: Curious(16, 3))


def test_without_a_dataset_the_request_is_bad(context_for, file_store):
    with pytest.raises(UserError, match="run prepare first"):
        profile_job.run(context_for(build_request("profile", order=tiny_workload()), file_store))


def test_the_profile_predicts_the_steps_that_training_will_run(profile):
    demand = profile(order=tiny_workload(epochs=5, batch_size=24))
    assert demand.steps == 5 * DataOrder(rows=100, batch_size=24, seed=0).steps_per_epoch


def test_the_depth_is_declared_by_the_name_of_an_argument():
    assert getattr(transformer, profile_model.DEPTH_CONSTANT) in transformer.build.__kwdefaults__

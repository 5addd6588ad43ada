"""The profile job as a process, on both stores."""

from __future__ import annotations

import importlib

import pytest
from torch import nn

from include.core.contracts.demand import Demand
from include.core.errors import UserError
from include.core.json_codec import from_json
from include.jobs.context import JobContext
from include.training.data_position import DataOrder
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
    assert "measured" in demand.method
    assert "estimated" in demand.method


@pytest.fixture
def profile(file_store, settings_for, tmp_path):
    """Run the job's function in this process."""

    def run(**fields):
        request = build_request("profile", **fields)
        context = JobContext(request=request, settings=settings_for(file_store), store=file_store, job_dir=tmp_path)
        return importlib.import_module("include.jobs.profile").run(context)

    return run


def test_a_model_that_does_not_take_the_data_is_bad_input(profile, file_store):
    with pytest.raises(UserError, match="CNN needs images"):  # the rows are 16 numbers
        profile(order=workload("digits"), dataset=write_dataset(file_store))


def test_a_model_with_the_wrong_output_is_bad_input(profile, file_store, monkeypatch):
    monkeypatch.setattr("include.jobs.profile.build_model", lambda *_, **__: nn.Linear(16, 7))
    with pytest.raises(UserError, match=r"not one logit per class.*\(2, 7\).*\(2, 3\)"):
        profile(order=tiny_workload(), dataset=write_dataset(file_store))


def test_a_model_that_takes_another_shape_is_bad_input(profile, file_store, monkeypatch):
    monkeypatch.setattr("include.jobs.profile.build_model", lambda *_, **__: nn.Linear(99, 3))
    with pytest.raises(UserError, match="does not take the data"):
        profile(order=tiny_workload(), dataset=write_dataset(file_store))


def test_without_a_dataset_the_request_is_bad(profile):
    with pytest.raises(UserError, match="run prepare first"):
        profile(order=tiny_workload())


def test_the_profile_predicts_the_steps_that_training_will_run(profile, file_store):
    dataset = write_dataset(file_store)
    order = tiny_workload(epochs=5, batch_size=24)
    demand = profile(order=order, dataset=dataset).demand
    assert demand.steps == 5 * DataOrder(rows=100, batch_size=24, seed=0).steps_per_epoch

"""The profile job as a process, on both stores."""

from __future__ import annotations

from include.core.contracts.demand import Demand
from include.core.json_codec import from_json
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


def test_a_model_that_does_not_take_the_data_is_bad_input(file_store, run_job):
    order = workload("digits")  # a CNN, but the rows are 16 numbers
    request = build_request("profile", order=order, dataset=write_dataset(file_store))
    done = run_job("profile", request, file_store)
    assert done.exit_code == 64, done.log
    assert "CNN needs images" in done.outcome["error"]


def test_without_a_dataset_the_request_is_bad(file_store, run_job):
    done = run_job("profile", build_request("profile", order=tiny_workload()), file_store)
    assert done.exit_code == 64, done.log
    assert "run prepare first" in done.outcome["error"]

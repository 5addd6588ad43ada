"""What a person sees who types ``make run``: one run from raw data to a served model, and what a second one finds."""

from __future__ import annotations

import pytest

from include.config.loader import load_folder
from stack.airflow_api import request
from stack.last_run import LastRun
from stack.leases_left import by_engine, by_process_table
from tests.e2e.conftest import made_run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_digits_survives_an_interruption_without_losing_a_step(digits_run):
    found = digits_run.summary
    assert found.problems == ()
    assert found.success
    assert found.state == "success"
    assert found.interruptions is not None
    assert found.interruptions >= 1
    assert found.steps_lost == 0
    assert [attempt.exit_code for attempt in found.attempts] == [75, 0]
    assert found.attempts[1].resumed_step == found.attempts[0].last_executed_step


def test_digits_chooses_a_smaller_model_that_is_as_good(digits_run):
    found = digits_run.summary
    assert len(found.candidates) >= 4
    assert all(card.p50_ms and card.p95_ms and card.size_bytes and card.peak_rss_bytes for card in found.candidates)
    assert found.accuracy is not None
    assert found.accuracy >= 0.96
    assert found.size_ratio is not None
    assert found.size_ratio >= 3
    assert found.accuracy_drop is not None
    assert found.accuracy_drop <= 0.01


def test_digits_is_registered_served_and_answers(digits_run, stack):
    found = digits_run.summary
    assert found.registered is not None
    assert (found.registered.name, found.registered.version, found.registered.alias) == ("digits", "1", "champion")
    assert found.deployment is not None
    assert found.deployment.version == "1"
    assert found.deployment.agreement_rows >= 100
    assert found.endpoint_agrees is True
    assert found.prediction is not None
    assert found.prediction.status == 200
    pixels = [[0.0] * 64]
    status, text = request("POST", found.deployment.url, body={"inputs": pixels})
    assert status in (200, 400, 422), text  # an answer of the model server, not of another program


def test_digits_is_accounted_for(digits_run):
    found = digits_run.summary
    for figure, method in (
        (found.cost.usd, found.cost.method),
        (found.energy.kwh, found.energy.method),
        (found.carbon.gco2e, found.carbon.method),
    ):
        assert figure is not None
        assert figure > 0
        assert method
    assert found.storage is not None
    assert not found.storage.dry_run
    assert found.plan is not None
    assert found.plan.alternatives + found.plan.rejected >= 25


def test_digits_leaves_nothing_running(digits_run, stack):
    assert digits_run.summary.leases_left == 0
    assert by_engine(stack.store(), stack.engine_settings) == set()
    assert by_process_table(stack.engine_settings) == set()
    assert stack.job_processes() == []


def test_the_summary_is_written_and_printed(digits_run):
    assert LastRun.model_validate(digits_run.written) == digits_run.summary
    for words in ("champion", "gCO2e", "pruned-distilled-int8", digits_run.summary.chosen):
        assert words in digits_run.printed


@pytest.mark.long
def test_a_second_run_finds_the_data_and_registers_no_second_version(digits_run, stack):
    again = made_run(stack, "digits", drill=False).summary
    assert again.success, again.problems
    assert again.prepared is not None
    assert again.prepared.found is True
    assert digits_run.summary.prepared is not None
    assert again.prepared.fingerprint == digits_run.summary.prepared.fingerprint
    assert again.registered is not None
    assert again.registered.version == digits_run.summary.registered.version
    assert again.registered.created is False
    assert again.interruptions == 0
    assert again.leases_left == 0


@pytest.mark.long
def test_titanic_goes_the_whole_way_too(stack):
    # The whole training lasts about a second, and the notice has to come in its middle all the same.
    found = made_run(stack, "titanic", drill=True).summary
    assert found.success, found.problems
    assert found.interruptions == 1
    assert found.steps_lost == 0
    gates = load_folder(stack.engine_settings.workloads).valid["titanic"].gates
    assert found.accuracy is not None
    assert found.accuracy >= gates.min_accuracy
    assert found.endpoint_agrees is True
    assert found.leases_left == 0

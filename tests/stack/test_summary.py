"""The summary of a run: what is read, what is computed, and what counts as a success."""

from io import StringIO

import pytest
from rich.console import Console

from include.config.loader import load_workload
from include.core.contracts.plan import Plan, RankedOffer
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from stack import arithmetic, summary
from stack.airflow_api import AirflowApi
from stack.installation import REPO
from stack.last_run import Durations, LastRun, TrainingAttempt
from stack.printed_summary import lines, print_summary
from stack.run_facts import gather
from tests.stack.run_documents import PLAN, PREDICTION, PREFIX, PRICE, attempt, offer, whole_run

WORKLOAD = load_workload(REPO / "include/workloads/digits.yaml")


@pytest.fixture
def store(tmp_path):
    return ObjectStore(f"file://{tmp_path}/store")


def outcome(**changes):
    values = {
        "workload": WORKLOAD,
        "run_id": "manual__1",
        "run_prefix": PREFIX,
        "state": "success",
        "failures": (),
        "leases_left": (),
        "prediction": None,
        "durations": Durations(setup_s=None, stack_s=20.0, run_s=90.0),
        "urls": {"Airflow": "http://127.0.0.1:8080"},
    }
    return summary.RunOutcome(**{**values, **changes})


def test_a_whole_run(any_store):
    whole_run(any_store)
    found = summary.summarise(outcome(), gather(any_store, PREFIX))
    assert found.success
    assert found.problems == ()
    assert (found.interruptions, found.steps_lost) == (1, 0)
    assert (found.chosen, found.accuracy, found.size_ratio) == ("static-int8", 0.975, 4.0)
    assert found.accuracy_drop == pytest.approx(0.005)
    assert found.registered.model_dump() == {"name": "digits", "version": "3", "created": False, "alias": "champion"}
    assert found.prepared.model_dump() == {"fingerprint": "f00", "found": True, "rows": 1360}
    assert (found.cost.usd, found.cost.method) == (0.000125, "estimated: tariff")
    assert found.energy.method == "estimated: power model; measured: counter"
    assert (found.carbon.gco2e, found.carbon.known_gco2e) == (None, 0.0)
    assert (found.plan.alternatives, found.plan.rejected) == (1, 1)
    [next_best] = found.plan.best_alternatives
    assert next_best.startswith("g6.xlarge/spot/local: 9 s, 0.5 USD predicted (")
    assert f"{PRICE['usd_per_h']} USD/h as of {PRICE['as_of']}, {PRICE['source']}" in next_best
    assert found.plan.naive is None
    assert [c.recipe for c in found.candidates if c.chosen] == ["static-int8"]
    assert found.storage.deleted_bytes == 20
    assert (found.diagnosis.verdict, found.diagnosis.fix) == ("data-bound", "more workers")
    shown = dict(lines(found))
    assert shown["  verdict"] == "data-bound: 40 % of the time the loop waits for data; try: more workers"
    assert [(row.what, row.ratio) for row in found.compared] == [("step", 2.0), ("memory", None)]
    assert shown["Measured"] == "as a multiple of the prediction: step 2"
    assert shown["Next run"].startswith("smaller GPU: 1 x g6.xlarge, spot, micro-batch 64, 1 workers; 30 %")
    assert shown["  money"] == "saves 0.3 USD, 60% of this training (two predictions)"
    assert shown["  confidence"] == "medium: 4 runs of this kind, their spread is 1.2"
    assert LastRun.model_validate_json(found.model_dump_json()) == found


def test_a_run_that_reached_nothing_has_nulls_and_not_zeros(store):
    found = summary.summarise(outcome(state="failed", failures=("task prepare failed: x",)), gather(store, PREFIX))
    assert not found.success
    assert found.problems == ("task prepare failed: x", "the run ended as failed")
    for name in (
        "plan",
        "interruptions",
        "steps_lost",
        "accuracy",
        "size_ratio",
        "endpoint_agrees",
        "registered",
        "diagnosis",
        "next_run",
    ):
        assert getattr(found, name) is None
    assert found.cost.usd is None
    assert "not recorded" in found.cost.method


def steps(*pairs, codes=None):
    codes = codes or [75] * (len(pairs) - 1) + [0]
    return [
        TrainingAttempt(number=n, resumed_step=r, last_executed_step=e, exit_code=c)
        for n, ((r, e), c) in enumerate(zip(pairs, codes, strict=True), start=1)
    ]


@pytest.mark.parametrize(
    ("attempts", "lost"),
    [
        ([], None),
        (steps((0, 300)), 0),
        (steps((0, 135), (135, 300)), 0),
        (steps((0, 137), (120, 300)), 17),
        (steps((0, 137), (120, 200), (160, 300)), 57),
        (steps((0, 100), (120, 300)), 0),
        (steps((0, None), (0, 300)), None),
        (steps((0, 50), (None, None)), None),
    ],
)
def test_steps_lost(attempts, lost):
    assert arithmetic.steps_lost(attempts) == lost


@pytest.mark.parametrize(
    ("codes", "count"), [([0], 0), ([75, 0], 1), ([-9, 75, 0], 2), ([1, 0], 0), ([64, 0], 0), ([None, 0], 1), ([75], 0)]
)
def test_interruptions_are_what_the_capacity_did_and_what_was_survived(codes, count):
    attempts = steps(*[(0, 1)] * len(codes), codes=codes)
    assert arithmetic.interruptions(attempts) == count


def test_attempts_are_in_numerical_order_and_a_missing_record_is_unknown(store):
    for number in (10, 2, 1):
        attempt(store, number, resumed=number, executed=number + 1, exit_code=75)
    attempt(store, 11, exit_code=-9)
    found = gather(store, PREFIX).attempts
    assert [a.number for a in found] == [1, 2, 10, 11]
    assert found[-1].last_executed_step is None
    assert arithmetic.steps_lost(found) is None


def test_results_are_those_of_the_last_attempt_that_has_one(store):
    whole_run(store)
    store.put_json(f"{PREFIX}/jobs/prepare-2/request.json", {})
    assert gather(store, PREFIX).prepared.found is True
    store.put(f"{PREFIX}/jobs/prepare-3/result.json", b'{"dataset": 1}')
    assert gather(store, PREFIX).prepared.found is True


@pytest.mark.parametrize(
    ("changes", "agrees", "problem"),
    [
        ({"state": "failed"}, True, "the run ended as failed"),
        ({"leases_left": ("train-1-g1",)}, True, "leases are still alive: train-1-g1"),
        ({}, False, "the endpoint does not answer as the registered version does"),
    ],
)
def test_what_is_no_success(store, changes, agrees, problem):
    whole_run(store, agrees=agrees)
    found = summary.summarise(outcome(**changes), gather(store, PREFIX))
    assert not found.success
    assert problem in found.problems


def test_success_without_a_deployment_needs_a_workload_that_wants_none(store):
    whole_run(store)
    store.delete(f"{PREFIX}/jobs/deploy-1/result.json")
    facts = gather(store, PREFIX)
    assert summary.summarise(outcome(), facts).problems == ("the run succeeded but nothing was deployed",)
    silent = WORKLOAD.model_copy(update={"serving": WORKLOAD.serving.model_copy(update={"deploy": False})})
    found = summary.summarise(outcome(workload=silent), facts)
    assert found.success
    assert found.endpoint_agrees is None
    assert found.registered.alias == "challenger"


def test_a_run_that_stopped_before_a_model_is_no_success(store):
    found = summary.summarise(outcome(), gather(store, PREFIX))
    assert "without a verdict" in found.problems[0]


def test_the_prediction_is_a_real_request(store, server):
    whole_run(store, url=f"{server.url}/digits/invocations")
    server.answers[("POST", "/digits/invocations")] = (200, {"predictions": [7]})
    made = summary.predict(gather(store, PREFIX), store)
    assert (made.status, made.answer) == (200, {"predictions": [7]})
    assert server.requests[-1][2] == {"inputs": [[1]]}
    server.answers[("POST", "/digits/invocations")] = (503, "busy")
    busy = summary.predict(gather(store, PREFIX), store)
    found = summary.summarise(outcome(prediction=busy), gather(store, PREFIX))
    assert found.problems == ("the endpoint answered a prediction with status 503",)


def test_a_large_sample_is_read_from_the_store(store, server):
    whole_run(store, url=f"{server.url}/digits/invocations")
    key = f"{PREFIX}/jobs/deploy-1/result.json"
    store.put_json(f"{PREFIX}/serving/sample.json", {"request": {"inputs": [[2]]}})
    uri = store.uri(f"{PREFIX}/serving/sample.json")
    store.put_json(key, {**store.get_json(key), "sample": {"uri": uri, "label": "x"}})
    summary.predict(gather(store, PREFIX), store)
    assert server.requests[-1][2] == {"inputs": [[2]]}


def task(name, **changes):
    values = {"dag_id": "digits", "dag_run_id": "r", "task_id": name, "try_number": 1, "map_index": -1}
    return {**values, "state": "failed", "end_date": "2026-01-01T00:00:00+00:00", **changes}


def test_failed_tasks_come_with_the_error_of_their_log(server):
    api = AirflowApi(url=server.url, user="admin", password="x")
    tasks = [
        task("late", end_date="2026-01-02T00:00:00+00:00"),
        task("early"),
        task("fine", state="success"),
        task("dead", end_date=None),
    ]
    base = "/api/v2/dags/digits/dagRuns/r/taskInstances"
    server.answers[("GET", f"{base}?limit=100&offset=0")] = (200, {"task_instances": tasks, "total_entries": 4})
    detail = [{"exc_type": "DataError", "exc_value": "no rows\n| found: 0"}]
    logs = {
        "early": [{"event": "a", "level": "info"}, {"event": "Task failed", "level": "error", "error_detail": detail}],
        "late": [{"event": "it  broke", "level": "error"}, {"event": "bye", "level": "info"}],
        "dead": [],
    }
    for name, events in logs.items():
        path = f"{base}/{name}/logs/1?map_index=-1&full_content=true"
        server.answers[("GET", path)] = (200, {"content": events})
    assert summary.failures(api, "digits", "r") == (
        "task dead failed: no error in its log; it may have been killed",
        "task early failed: DataError: no rows | found: 0",
        "task late failed: it broke",
    )


def test_the_printed_summary_names_what_the_person_wants_to_know(store):
    whole_run(store)
    console = Console(record=True, width=200, file=StringIO())
    print_summary(summary.summarise(outcome(leases_left=("work-1-g1",)), gather(store, PREFIX)), console)
    text = console.export_text()
    for expected in (
        "static-int8",
        "1 interruptions survived, 0 steps lost",
        "4.00 times smaller than fp32 ONNX",
        "digits 3 (champion), version found again",
        "0.000125 USD (estimated: tariff)",
        "unknown (estimated: power model; measured: counter)",
        "200 test rows as the registered version",
        "f00, found again",
        "PROBLEM        leases are still alive: work-1-g1",
        "http://127.0.0.1:8080",
    ):
        assert expected in text


def test_an_offer_that_was_not_taken_says_why_and_unknown_is_not_zero():
    ranked = from_json(
        RankedOffer, {"offer": offer("p5.48xlarge", "on-demand"), "prediction": None, "rejected": "no engine"}
    )
    line = summary.offer_line(ranked)
    assert "unknown time, unknown cost" in line
    assert line.endswith("; not taken: no engine")


def test_the_next_best_are_different_types():
    twice = {"offer": offer("g6.xlarge", "on-demand"), "prediction": PREDICTION, "rejected": "dearer"}
    alternatives = [PLAN["alternatives"][0], twice, {**twice, "offer": offer("g5.xlarge", "on-demand")}]
    found = summary.plan_summary(from_json(Plan, {**PLAN, "alternatives": alternatives}))
    assert [line.partition("/")[0] for line in found.best_alternatives] == ["g6.xlarge", "g5.xlarge"]

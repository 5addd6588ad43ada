import pytest

from include.config.job_messages import SelectResult
from include.core.contracts.scorecard import Verdict
from include.core.json_codec import from_json
from tests.support.jobs import workload
from tests.support.scorecards import scorecard

CARDS = (
    scorecard(accuracy=0.98, size=600_000),
    scorecard("static-int8", accuracy=0.978, size=160_000),
    scorecard("pruned-distilled-int8", accuracy=0.93, size=45_000),
)


@pytest.fixture
def select(any_store, run_job, job_request):
    def run(cards, **gates):
        request = job_request("select", order=workload(gates=gates), scorecards=cards)
        return request.run_prefix, run_job("select", request, any_store)

    return run


@pytest.mark.integration
def test_verdict_and_pictures_are_written(select, any_store):
    prefix, done = select(CARDS)
    assert done.exit_code == 0, done.log
    result = SelectResult.model_validate(done.result)
    assert result.verdict.chosen == "static-int8"
    assert from_json(Verdict, any_store.get_json(f"{prefix}/selection/verdict.json")) == result.verdict
    assert any_store.key_of(result.picture_uri) == f"{prefix}/selection/pareto.png"
    assert any_store.get(f"{prefix}/selection/pareto.png").startswith(b"\x89PNG")
    assert b"static-int8" in any_store.get(any_store.key_of(result.interactive_uri))


@pytest.mark.integration
def test_nothing_feasible_ends_with_64_and_numbers_and_still_draws(select, any_store):
    prefix, done = select(CARDS, max_size_bytes=20_000)
    assert done.exit_code == 64
    assert done.result is None
    assert "no candidate passes the gates" in done.outcome["error"]
    assert "max_size_bytes: 160000 > 20000" in done.outcome["error"]
    assert any_store.get_json(f"{prefix}/selection/verdict.json") is None
    assert b"none passes the gates" in any_store.get(f"{prefix}/selection/pareto.html")


@pytest.mark.integration
def test_no_scorecards_and_no_baseline_end_with_64(select):
    assert "no scorecards" in select(())[1].outcome["error"]
    _, done = select(CARDS[1:])
    assert done.exit_code == 64
    assert "baseline was not measured" in done.outcome["error"]

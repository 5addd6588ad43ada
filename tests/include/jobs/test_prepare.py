"""The prepare job, mostly as a process, on both stores."""

from __future__ import annotations

import pytest

from include.config.loader import load_workload
from include.config.settings import REPO
from include.core.contracts.dataset import DatasetRef
from include.core.json_codec import from_json
from include.data.encoding import load_split, read_manifest
from include.jobs.prepare import run
from tests.support.jobs import workload
from tests.support.tables import passengers, section, write_table

BROKEN = REPO / "tests" / "include" / "config" / "broken"


@pytest.mark.integration
def test_digits_are_prepared_once_and_then_found(any_store, run_job, job_request) -> None:
    code, first, outcome, log = run_job("prepare", job_request("prepare"), any_store)
    assert (code, outcome) == (0, {"status": "done"}), log
    again = run_job("prepare", job_request("prepare", attempt=2), any_store)
    assert (first["found"], again.result["found"]) == (False, True)
    ref = from_json(DatasetRef, first["dataset"])
    assert sum(ref.rows.values()) == 1797
    x, y = load_split(any_store, read_manifest(any_store, ref.uri), "test")
    assert x.shape == (ref.rows["test"], 1, 8, 8)
    assert set(y) == set(range(10))


def test_rows_that_are_left_out_are_warned_of(tmp_path, file_store, job_request, context_for, caplog) -> None:
    columns = passengers()
    columns["survived"][3] = None
    write_table(columns, tmp_path / "data" / "t.csv")
    order = workload().model_copy(update={"data": section("t.csv")})
    context = context_for(job_request("prepare", order=order), file_store, data_roots=(tmp_path / "data",))
    assert run(context).dropped_rows == {"no label": 1}
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.getMessage() == "left out of the source: 1 (no label)"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "fragments"),
    [("label_absent", ["data.label", "survivor", "survived"]), ("empty_data", ["data.source", "0 rows in empty.csv"])],
)
def test_data_that_cannot_be_used_ends_with_64_and_leaves_nothing(
    name, fragments, any_store, run_job, job_request, settings_for
) -> None:
    request = job_request("prepare", order=load_workload(BROKEN / f"{name}.yaml"))
    settings = settings_for(any_store, data_roots=(BROKEN / "tables",))
    code, result, outcome, log = run_job("prepare", request, any_store, settings=settings)
    assert (code, result, outcome["status"]) == (64, None, "bad_input"), log
    for fragment in fragments:
        assert fragment in outcome["error"]
    assert not list(any_store.list("datasets"))

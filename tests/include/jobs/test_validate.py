"""The validate job: pages and report in success and in failure, and failures that name rows."""

from __future__ import annotations

import logging

import pytest

from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data import prepare as preparing
from include.data.prepare import prepare_dataset
from include.jobs import validate
from include.jobs.context import JobContext
from tests.support.jobs import workload
from tests.support.tables import passengers, write_table

REPORT = "runs/titanic/test-run-34acbb/validation/attempt-1/report.json"


@pytest.fixture
def validated(tmp_path, file_store, job_request, settings_for):
    """Prepare a table and validate it in this process; returns the result or raises."""

    def run(columns=None, **data):
        write_table(columns or passengers(), tmp_path / "data" / "t.parquet")
        source = {"source": {"kind": "uri", "uri": "t.parquet"}, "label": "survived", "drop": [], "expectations": []}
        order = workload("titanic", data={**source, **data})
        dataset = prepare_dataset(store=file_store, data=order.data, roots=(tmp_path / "data",)).ref
        request = job_request("validate", order=order, dataset=dataset)
        (tmp_path / "job").mkdir(exist_ok=True)
        settings = settings_for(file_store)
        return validate.run(JobContext(request=request, settings=settings, store=file_store, job_dir=tmp_path / "job"))

    return run


@pytest.mark.integration
def test_valid_digits_on_s3_give_a_report_and_pages_and_a_short_log(
    s3_store: ObjectStore, run_job, job_request
) -> None:
    order = workload("digits")
    dataset = prepare_dataset(store=s3_store, data=order.data, roots=()).ref
    code, result, _, log = run_job("validate", job_request("validate", order=order, dataset=dataset), s3_store)
    assert code == 0, log
    report = s3_store.get_json(s3_store.key_of(result["report_uri"]))
    assert (report["success"], len(report["checks"])) == (True, result["evaluated"])
    index = s3_store.get(s3_store.key_of(result["docs_uri"])).decode()
    pages = [key for key, _ in s3_store.list(s3_store.key_of(result["docs_uri"]).removesuffix("index.html"))]
    assert "<html" in index
    assert sum("/validations/" in page for page in pages) == 4
    assert log.count("\n") < 10, log


@pytest.mark.integration
def test_a_failed_validation_ends_with_64_and_still_leaves_report_and_pages(file_store, run_job, job_request) -> None:
    expectation = {"type": "expect_column_values_to_be_between", "arguments": {"column": "age", "max_value": 66}}
    order = workload("titanic", data={"expectations": [expectation]})
    dataset = prepare_dataset(store=file_store, data=order.data, roots=()).ref
    request = job_request("validate", order=order, dataset=dataset)
    code, result, outcome, log = run_job("validate", request, file_store)
    assert (code, result) == (64, None), log
    for fragment in ("expect_column_values_to_be_between on 'age'", "6 of 1313 rows", "row_id=9 age=71.0", "max_value"):
        assert fragment in outcome["error"]
    assert len(outcome["error"]) < 3000
    report = file_store.get_json(REPORT)
    failed = [item for item in report["checks"] if not item["success"]]
    assert [len(item["result"]["unexpected_index_list"]) for item in failed] == [6]
    assert file_store.exists(REPORT.replace("report.json", "docs/index.html"))


def test_automatic_checks_name_column_rows_and_the_setting(validated) -> None:
    columns = {
        **passengers(),
        "survived": ["rare" if i in {1, 2, 3} else "common" for i in range(120)],
    }
    with pytest.raises(DataError, match="2 of 9 expectations") as caught:
        validated(columns, max_null_share=0.05, min_class_share=0.1)
    for fragment in (
        "'null_share': 2 of 4 columns (column=age first_null_rows=",
        "column=port",
        "[data.max_null_share]",
        "'share': 1 of 2 classes (class=rare rows=3",
        "[data.min_class_share]",
    ):
        assert fragment in str(caught.value)


def test_repeated_rows_are_named(validated) -> None:
    columns = {name: values[:108] + values[:12] for name, values in passengers().items()}
    with pytest.raises(DataError, match=r"12 of 120 rows .*row_id=1(0[89]|1\d).*data\.max_duplicate_share"):
        validated(columns, max_duplicate_share=0.05)


def test_leakage_between_splits_is_found(validated, monkeypatch) -> None:
    columns = {name: values[:60] * 2 for name, values in passengers().items()}
    splits = preparing.np.array(["train"] * 60 + ["validation", "test"] * 30)
    monkeypatch.setattr(preparing, "assign_splits", lambda hashes, split: splits)
    with pytest.raises(DataError, match=r"1 of 9.*'splits_with_these_inputs': 120 of 120 rows \(row_id=0 split=train"):
        validated(columns, max_duplicate_share=1)


def test_expectations_of_the_workload_see_prepared_values(validated, caplog) -> None:
    caplog.set_level(logging.CRITICAL)
    expectations = [
        {"type": "expect_column_values_to_be_in_set", "arguments": {"column": "survived", "value_set": ["0", "1"]}},
        {"type": "expect_column_values_to_be_in_set", "arguments": {"column": "alone", "value_set": [0, 1]}},
        {"type": "expect_column_max_to_be_between", "arguments": {"column": "fare", "max_value": 1}},
        {"type": "expect_column_values_to_be_between", "arguments": {"column": "port", "min_value": 3}},
    ]
    with pytest.raises(DataError, match="2 of 13 expectations") as caught:
        validated(expectations=expectations)
    assert "expect_column_max_to_be_between on 'fare': observed 17.0" in str(caught.value)
    # Comparing text with a number breaks inside the library: a failure with its message, not a crash.
    assert "expect_column_values_to_be_between on 'port': " in str(caught.value)
    assert "data.expectations.3" in str(caught.value)


def test_only_the_first_failures_and_rows_are_in_the_message(validated) -> None:
    expectation = {"type": "expect_column_values_to_be_between", "arguments": {"column": "fare", "max_value": -1}}
    variants = [{**expectation, "arguments": {**expectation["arguments"], "max_value": -n}} for n in range(1, 9)]
    with pytest.raises(DataError, match="8 of 17 expectations") as caught:
        validated(expectations=variants)
    text = str(caught.value)
    assert (text.count("expect_column_values_to_be_between"), text.count("row_id=")) == (5, 25)
    assert "and 3 more" in text

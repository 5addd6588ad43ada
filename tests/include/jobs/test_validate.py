"""The validate job as a process: pages and report in success and failure, and rows named."""

from __future__ import annotations

import pytest

from include.data.prepare import prepare_dataset
from tests.support.jobs import workload

NEVER = {"type": "expect_column_values_to_be_between", "arguments": {"column": "age", "max_value": 70}}


@pytest.mark.integration
def test_valid_digits_give_a_report_and_pages(any_store, run_job, job_request) -> None:
    order = workload("digits")
    dataset = prepare_dataset(store=any_store, data=order.data, roots=()).ref
    code, result, _, log = run_job("validate", job_request("validate", order=order, dataset=dataset), any_store)
    assert code == 0, log
    assert result["evaluated"] > 3 * 64
    report = any_store.get_json(any_store.key_of(result["report_uri"]))
    assert report["success"] is True
    assert b"<html" in any_store.get(any_store.key_of(result["docs_uri"]))
    assert log.count("\n") < 20, log

"""The program that runs a job: one line and the right exit code for whatever it is given."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from include.core.errors import StoreError
from include.core.exit_codes import ExitCode
from include.core.store import ObjectStore
from include.jobs.__main__ import main
from tests.support.jobs import build_request


@pytest.fixture
def entry(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[ExitCode, str]]:
    monkeypatch.setenv("PLIMSOLL_STORE", file_store.url)
    monkeypatch.setenv("PLIMSOLL_JOB_DIR", str(tmp_path / "job"))

    def run(*arguments: str) -> tuple[ExitCode, str]:
        caplog.clear()
        caplog.set_level(logging.INFO)
        code = main(list(arguments))
        return code, caplog.text

    return run


@pytest.mark.parametrize("arguments", [(), ("train",), ("train", "a", "b")])
def test_wrong_number_of_arguments_is_told_the_usage(entry: Callable, arguments: tuple[str, ...]) -> None:
    code, log = entry(*arguments)
    assert code == ExitCode.BAD_INPUT
    assert "usage: python -m include.jobs <kind> <request-uri>" in log


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff\xfe", b"[" * 100_000])
def test_request_that_is_no_json_is_named(entry: Callable, file_store: ObjectStore, data: bytes) -> None:
    file_store.put("runs/r/request.json", data)
    code, log = entry("train", file_store.uri("runs/r/request.json"))
    assert code == ExitCode.BAD_INPUT
    assert f"the request is no JSON | where: {file_store.uri('runs/r/request.json')}" in log
    assert "Traceback" not in log


def test_mistakes_of_a_request_are_one_line_each(entry: Callable, file_store: ObjectStore) -> None:
    raw = build_request("train").model_dump(mode="json")
    del raw["run_id"]
    file_store.put_json("runs/r/request.json", {**raw, "attempt": 0, "colour": "red", "checkpoint_every_steps": -1})
    code, log = entry("train", file_store.uri("runs/r/request.json"))
    assert code == ExitCode.BAD_INPUT
    for line in ("run_id: missing", "attempt: found 0", "colour: unknown key", "checkpoint_every_steps: found -1"):
        assert line in log
    assert "pydantic.dev" not in log


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_scratch_folder_that_cannot_be_is_named(
    entry: Callable, file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PLIMSOLL_JOB_DIR", str(tmp_path / place))
    request = build_request("train")
    file_store.put_json(f"{request.base}/request.json", request.model_dump(mode="json"))
    code, log = entry("train", file_store.uri(f"{request.base}/request.json"))
    assert code == ExitCode.BAD_INPUT
    assert f"the scratch folder takes no files | where: PLIMSOLL_JOB_DIR | found: {tmp_path / place}" in log


def test_store_that_takes_no_writes_ends_the_job_before_it_works(
    entry: Callable, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = build_request("train")
    file_store.put_json(f"{request.base}/request.json", request.model_dump(mode="json"))

    def refuse(*_: object) -> None:
        raise PermissionError("read-only\nDebug { more }")

    monkeypatch.setattr(ObjectStore, "put_json", refuse)
    code, log = entry("train", file_store.uri(f"{request.base}/request.json"))
    assert code == ExitCode.ERROR
    assert f"the store takes no writes | where: {file_store.uri(request.base)}/started.json | found: read-only\n" in log
    assert "Debug" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("PLIMSOLL_STORE", "nonsense", "a URL that begins with one of file://"),
        ("PLIMSOLL_STORE", "", "a URL that begins with one of file://"),
        ("PLIMSOLL_STORE", "ftp://host/x", "a URL that begins with one of file://"),
        ("PLIMSOLL_STORE", "file://relative", "a URL that begins with one of file://"),
        ("PLIMSOLL_STORE", "s3://", "a URL that begins with one of file://"),
        ("PLIMSOLL_STORE", f"file://{__file__}", "a URL that begins with one of file://"),
        ("PLIMSOLL_WORK_ROOT", "", "the absolute path of a folder"),
        ("PLIMSOLL_SKIP_BAD_SHARDS", "maybe", "true or false"),
    ],
)
def test_setting_that_cannot_be_used_is_named_with_its_choice(
    entry: Callable, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(variable, value)
    code, log = entry("train", "file:///store/runs/r/request.json")
    assert code == ExitCode.BAD_INPUT
    assert f"{variable} cannot be used | found: {value!r} | allowed: {allowed}" in log


def test_failure_does_not_undo_the_outcome_of_who_finished_the_same_attempt(
    entry: Callable, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = build_request("account")
    file_store.put_json(f"{request.base}/request.json", request.model_dump(mode="json"))

    def lose(_: object) -> None:
        file_store.put_json(f"{request.base}/outcome.json", {"status": "done"})
        raise StoreError("already committed; another process runs the same attempt")

    monkeypatch.setattr("include.jobs.account.run", lose)
    assert entry("account", file_store.uri(f"{request.base}/request.json"))[0] == ExitCode.ERROR
    assert file_store.get_json(f"{request.base}/outcome.json") == {"status": "done"}


def test_documents_of_a_finished_job_are_in_the_store(
    entry: Callable, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = build_request("account")
    file_store.put_json(f"{request.base}/request.json", request.model_dump(mode="json"))
    monkeypatch.setattr("include.jobs.account.run", lambda context: request)
    code, _ = entry("account", file_store.uri(f"{request.base}/request.json"))
    assert code == ExitCode.DONE
    assert file_store.get_json(f"{request.base}/outcome.json") == {"status": "done"}
    assert json.loads(file_store.get(f"{request.base}/result.json") or b"")["kind"] == "account"

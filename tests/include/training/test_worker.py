from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from include.config.settings import Settings
from include.core.errors import StoreError, UserError
from include.core.store import ObjectStore
from include.training import session
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.stop import StopFlag
from include.training.worker import run_attempt
from tests.support.training import train_request, write_dataset


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("wrong model", where="model.factory"), "bad_input", "wrong model | where: model.factory"),
        (StoreError("checkpoint is gone"), "error", "StoreError: checkpoint is gone"),
        (RuntimeError("shapes differ"), "error", "RuntimeError: shapes differ"),
        (SystemExit("bye"), "error", "the process was told to exit: SystemExit: bye"),
    ],
)
def test_every_failure_becomes_an_outcome(
    error: BaseException,
    status: str,
    message: str,
    file_store: ObjectStore,
    settings_for: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> WorkerOutcome:
        raise error

    monkeypatch.setattr(session, "train", fail)
    order = WorkerOrder(
        request=train_request(write_dataset(file_store)), settings=settings_for(file_store), job_dir=tmp_path
    )
    assert run_attempt(order, stop=StopFlag(tmp_path)) == WorkerOutcome(status=status, message=message)


def test_order_survives_its_file(
    file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path
) -> None:
    order = WorkerOrder(
        request=train_request(write_dataset(file_store)), settings=settings_for(file_store), job_dir=tmp_path
    )
    assert WorkerOrder.model_validate_json(order.model_dump_json()) == order

"""A training session inside the test process: a process group of one, and a notice at a chosen step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.session import train
from include.training.stop import StopFlag


class StopAfter(StopFlag):
    """A notice that comes in a given step of the attempt."""

    def __init__(self, job_dir: Path, steps: int | None) -> None:
        super().__init__(job_dir)
        self._left = steps

    def raised(self) -> bool:
        if self._left is None:
            return super().raised()
        self._left -= 1
        return self._left <= 0


@pytest.fixture
def exactness() -> Iterator[None]:
    """Undo what a session sets for its whole process."""
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture
def quick_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves that end before the next step: which checkpoints there are does not depend on the disk."""
    save = Checkpointer.save

    def save_and_settle(self: Checkpointer, *arguments: Any, **more: Any) -> None:
        save(self, *arguments, **more)
        self.settle()

    monkeypatch.setattr(Checkpointer, "save", save_and_settle)


@pytest.fixture
def attempt(
    tmp_path: Path,
    settings_for: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    exactness: None,
) -> Callable[..., WorkerOutcome]:
    """``attempt(request, store, notice_after=None, files={})``: one attempt with these texts in its scratch folder."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    made = []

    def run(
        request: JobRequest,
        store: ObjectStore,
        notice_after: int | None = None,
        files: dict[str, str] | None = None,
        **settings: Any,
    ) -> WorkerOutcome:
        job_dir = tmp_path / f"job-{len(made)}"
        job_dir.mkdir()
        for name, text in (files or {}).items():
            (job_dir / name).write_text(text)
        made.append(job_dir)
        order = WorkerOrder(request=request, settings=settings_for(store, **settings), job_dir=job_dir)
        try:
            return train(order, stop=StopAfter(job_dir, notice_after))
        finally:
            torch.distributed.destroy_process_group()

    run.folders = made  # type: ignore[attr-defined] - tests look at the scratch folders
    return run

"""What the training tells while it runs costs it nothing where the disk takes no more."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from include.training import launcher, progress
from include.training.progress import Progress, StepAccount, read_account


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for module in (progress, launcher):
        monkeypatch.setattr(module, "write_json", refuse)


@pytest.mark.usefixtures("full_disk")
def test_progress_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    shown = Progress(job_dir=tmp_path, total=10, epochs=1)
    for step in (1, 2, 3):
        shown.show(step=step, epoch=1, loss=0.5, samples_per_s=None)
    assert [str(tmp_path) in record.getMessage() for record in caplog.records] == [True]
    assert "No space left on device" in caplog.text


@pytest.mark.usefixtures("full_disk")
def test_the_account_outlives_a_full_disk(tmp_path: Path) -> None:
    account = StepAccount(job_dir=tmp_path, resumed_step=2)
    account.record(last_executed_step=5, committed_step=4)
    account.close()
    assert read_account(tmp_path) == {
        "resumed_step": 2,
        "last_executed_step": 5,
        "committed_step": 4,
        "useful_s": 0.0,
    }


@pytest.mark.usefixtures("full_disk")
def test_a_notice_reaches_the_workers_without_a_marker(tmp_path: Path) -> None:
    notice = launcher._Notice(tmp_path)
    notice(signal.SIGTERM, None)
    notice.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    notice(signal.SIGTERM, None)
    assert notice.process.wait(10) == -signal.SIGTERM

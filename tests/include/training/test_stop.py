from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from include.training.stop import StopFlag


def test_marker_file_is_a_notice(tmp_path: Path) -> None:
    flag = StopFlag(tmp_path)
    assert not flag.raised()
    (tmp_path / "notice.json").write_text("{}")
    assert flag.raised()


def test_sigterm_is_a_notice(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        flag = StopFlag(tmp_path)
        flag.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert flag.raised()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_time_that_a_notice_leaves_counts_from_its_marker(tmp_path: Path) -> None:
    flag, marker = StopFlag(tmp_path), tmp_path / "notice.json"
    assert flag.grace_s() is None
    marker.write_text('{"action": "terminate", "grace_s": 100}')
    os.utime(marker, (time.time() - 40, time.time() - 40))
    assert flag.grace_s() == pytest.approx(60, abs=2)
    # The launcher's own marker, after a plain SIGTERM, names no time.
    marker.write_text('{"action": "SIGTERM"}')
    assert flag.grace_s() == pytest.approx(30, abs=2)
    os.utime(marker, (0, 0))
    assert flag.grace_s() == 0


def test_asking_for_a_checkpoint_is_heard_once_and_is_no_notice(tmp_path: Path) -> None:
    flag, other = StopFlag(tmp_path), StopFlag(tmp_path, hears_asking=False)
    assert not flag.raised()
    assert not flag.save_wanted()
    (tmp_path / "checkpoint-now").touch()
    assert not flag.raised()
    assert flag.save_wanted()
    assert not flag.raised()
    assert not flag.save_wanted()
    # One worker of a machine speaks for all: else each would ask for a save of its own.
    assert not other.raised()
    assert not other.save_wanted()


def test_a_signal_alone_leaves_what_torchrun_gives(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        flag = StopFlag(tmp_path)
        flag.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert flag.grace_s() == pytest.approx(110, abs=2)
        (tmp_path / "notice.json").write_text('{"grace_s": 50}')
        assert flag.grace_s() == pytest.approx(50, abs=2)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_looks_for_the_marker_are_rare_and_a_notice_stays_one(tmp_path: Path) -> None:
    flag, marker = StopFlag(tmp_path, look_every_s=0.05), tmp_path / "notice.json"
    assert not flag.raised()
    marker.write_text("{}")
    assert not flag.raised()
    time.sleep(0.06)
    assert flag.raised()
    marker.unlink()
    assert flag.raised()

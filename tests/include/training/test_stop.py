from __future__ import annotations

import os
import signal
from pathlib import Path

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

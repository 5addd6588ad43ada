"""The yardstick of predicted memory: what it counts, and that it refuses what it cannot count."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest
import torch

from tests.support import measured_memory
from tests.support.measured_memory import peak_of, wait_for_threads

MIB = 2**20


def busy():
    """Some tenths of a second of CPU outside of the interpreter's lock, as a thread of gloo has them."""
    hashlib.pbkdf2_hmac("sha256", b"some", b"salt", 500_000)


def test_the_peak_is_what_was_held_at_once():
    def run():
        first = torch.empty(4 * MIB, dtype=torch.uint8)
        del first
        held = [torch.empty(2 * MIB, dtype=torch.uint8) for _ in range(3)]
        held.clear()

    assert peak_of(run) == 6 * MIB


def test_what_another_thread_frees_is_refused_and_not_counted_for_good():
    def run():
        for _ in range(20):
            box = [torch.empty(MIB, dtype=torch.uint8)]
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()

    with pytest.raises(AssertionError, match="freed by a thread that leaves no events"):
        peak_of(run)


def test_threads_are_waited_for_until_they_sleep():
    ended = threading.Event()

    def work():
        busy()
        ended.set()
        time.sleep(60)

    threading.Thread(target=work, daemon=True).start()
    wait_for_threads()
    assert ended.is_set()


def test_a_thread_that_never_sleeps_is_told(monkeypatch):
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            busy()

    monkeypatch.setattr(measured_memory, "SETTLE_S", 0.2)
    thread = threading.Thread(target=spin)
    thread.start()
    try:
        with pytest.raises(TimeoutError, match="still busy"):
            wait_for_threads()
    finally:
        stop.set()
        thread.join()

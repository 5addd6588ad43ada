import subprocess
import sys

import pytest

from include.core.errors import PlimsollError, StoreError
from include.evaluation.intervals import wilson_interval
from include.evaluation.measure import measure


def test_scorecard_of_a_model_with_known_answers(model_file, candidate, labelled):
    card = measure(
        candidate=candidate(model_file), path=model_file, validation=labelled(40, 30), test=labelled(600, 450)
    )
    assert card.accuracy == 450 / 600
    assert card.rows == 600
    assert (card.accuracy_low, card.accuracy_high) == wilson_interval(successes=450, rows=600)
    assert (card.validation_accuracy, card.validation_rows) == (0.75, 40)
    assert card.size_bytes == model_file.stat().st_size
    assert [latency.batch for latency in card.latencies] == [1, 32]
    assert all(latency.cpu_ms > 0 and latency.p50_ms <= latency.p95_ms for latency in card.latencies)
    assert card.peak_rss_bytes > 10_000_000
    assert "onnxruntime" in card.runtime


def test_fewer_test_rows_than_the_batch_are_repeated_for_timing(model_file, candidate, labelled):
    card = measure(candidate=candidate(model_file), path=model_file, validation=labelled(3, 3), test=labelled(3, 2))
    assert card.accuracy == 2 / 3
    assert card.latencies[1].batch == 32


@pytest.mark.parametrize("position", [0, 50, -1])
def test_one_flipped_byte_is_refused(model_file, candidate, labelled, position):
    known = candidate(model_file)
    content = bytearray(model_file.read_bytes())
    content[position] ^= 1
    model_file.write_bytes(content)
    with pytest.raises(StoreError, match="not the candidate"):
        measure(candidate=known, path=model_file, validation=labelled(3, 3), test=labelled(3, 3))


def test_answers_that_are_not_numbers_are_an_error_and_not_a_score(broken_model_file, candidate, labelled):
    with pytest.raises(PlimsollError, match="not finite"):
        measure(
            candidate=candidate(broken_model_file),
            path=broken_model_file,
            validation=labelled(3, 3),
            test=labelled(3, 3),
        )


def test_measuring_imports_no_training_library():
    code = (
        "import sys, include.evaluation.measure; print([m for m in ('torch', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

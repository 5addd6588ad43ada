"""Scorecards with chosen figures, for tests of decisions and pictures."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from include.core.contracts.scorecard import Latency, Scorecard

BASELINE = "onnx-fp32"
# No deadline: the machine may be busy elsewhere, and these decisions take microseconds.
property_test = settings(deadline=None, max_examples=50)


def scorecard(
    recipe: str = BASELINE,
    *,
    accuracy: float = 0.98,
    size: int = 600_000,
    cpu_ms: float = 0.08,
    p95_ms: float = 0.1,
    rss: int = 180_000_000,
    rows: int = 400,
    test_accuracy: float | None = None,
) -> Scorecard:
    """A scorecard; `accuracy` is that of the validation split."""
    share = accuracy if test_accuracy is None else test_accuracy
    return Scorecard(
        recipe=recipe,
        recipe_hash=f"hash-{recipe}",
        model_uri=f"file:///store/{recipe}/model.onnx",
        sha256="0" * 64,
        size_bytes=size,
        rows=rows,
        accuracy=share,
        accuracy_low=max(0.0, share - 0.01),
        accuracy_high=min(1.0, share + 0.01),
        validation_accuracy=accuracy,
        validation_rows=rows,
        latencies=(
            Latency(batch=1, p50_ms=cpu_ms, p95_ms=p95_ms, cpu_ms=cpu_ms, calls=400),
            Latency(batch=32, p50_ms=cpu_ms * 15, p95_ms=p95_ms * 15, cpu_ms=cpu_ms * 15, calls=400),
        ),
        peak_rss_bytes=rss,
        runtime="onnxruntime test",
    )


@st.composite
def scorecard_sets(draw: st.DrawFn) -> tuple[Scorecard, ...]:
    """One to six scorecards, the baseline among them, with figures close enough for ties and noise to matter."""
    count = draw(st.integers(1, 6))
    names = [BASELINE, *(f"recipe-{number}" for number in range(1, count))]
    return tuple(
        scorecard(
            name,
            accuracy=draw(st.integers(380, 400)) / 400,
            size=draw(st.integers(1_000, 1_010) | st.integers(1_000, 900_000)),
            cpu_ms=draw(st.floats(0.01, 0.012) | st.floats(0.01, 5)),
            p95_ms=draw(st.floats(0.01, 5)),
            rss=draw(st.integers(100_000_000, 104_000_000)),
        )
        for name in draw(st.permutations(names))
    )

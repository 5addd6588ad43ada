"""What the server tells Prometheus, per endpoint."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

# Latency buckets in seconds, dense around the default objective of 100 ms.
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512)


class ServerMetrics:
    """Counters and histograms of one server; a registry of its own, so that two servers in one process do not clash."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "plimsoll_requests", "Invocations by status.", ("endpoint", "status"), registry=self.registry
        )
        self.errors = Counter(
            "plimsoll_errors", "Invocations that failed, by reason.", ("endpoint", "reason"), registry=self.registry
        )
        self.seconds = Histogram(
            "plimsoll_request_seconds",
            "Seconds from the first byte of the body to the answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batch_rows = Histogram(
            "plimsoll_batch_rows", "Rows per batch.", ("endpoint",), buckets=_ROWS, registry=self.registry
        )
        self.loaded = Gauge(
            "plimsoll_model_loaded", "1 for the version that answers.", ("endpoint", "version"), registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

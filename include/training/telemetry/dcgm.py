"""The device by a DCGM exporter, where one answers: its Prometheus text over HTTP."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from include.training.telemetry.facts import (
    DRAM_ACTIVE,
    GPU_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_USED,
    GPU_POWER,
    PCIE_FROM_DEVICE,
    PCIE_TO_DEVICE,
    SM_ACTIVE,
    TENSOR_ACTIVE,
)
from include.training.telemetry.readers import Rates

# Where the exporter listens unless it is told otherwise.
DEFAULT_URL = "http://127.0.0.1:9400/metrics"
_TIMEOUT_S = 0.5
_MOST_BYTES = 4 * 2**20
_PERCENT, _MEBIBYTE = 0.01, 2.0**20

# Field -> series and factor; of two fields for one series the first that is there counts.
_FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": (GPU_BUSY, _PERCENT),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (GPU_MEMORY_BUSY, _PERCENT),
    "DCGM_FI_DEV_FB_USED": (GPU_MEMORY_USED, _MEBIBYTE),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (TENSOR_ACTIVE, 1.0),
    "DCGM_FI_DEV_TENSOR_ACTIVE": (TENSOR_ACTIVE, 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": (SM_ACTIVE, 1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": (DRAM_ACTIVE, 1.0),
    # The exporter speaks from the device: what it receives goes to it.
    "DCGM_FI_PROF_PCIE_RX_BYTES": (PCIE_TO_DEVICE, 1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": (PCIE_FROM_DEVICE, 1.0),
    "DCGM_FI_DEV_POWER_USAGE": (GPU_POWER, 1.0),
}
_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TYPE = re.compile(r"^#\s*TYPE\s+(\S+)\s+(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of the exporter's text."""

    name: str
    labels: dict[str, str]
    value: float
    is_counter: bool


def parse(text: str) -> Iterator[Sample]:
    """The samples of a Prometheus text. Lines that are none are passed over, and so are values that are no number."""
    counters = set()
    for line in text.splitlines():
        if line.startswith("#"):
            if (found := _TYPE.match(line)) and found[2] == "counter":
                counters.add(found[1])
            continue
        sample = _SAMPLE.match(line)
        value = None if sample is None else _number(sample["value"])
        if sample is not None and value is not None:
            labels = dict(_LABEL.findall(sample["labels"] or ""))
            yield Sample(name=sample["name"], labels=labels, value=value, is_counter=sample["name"] in counters)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


class DcgmReader:
    """Series of one device from an exporter.

    Args:
        url: Its address.
        uuid: UUID of the device; None takes the only device that the exporter knows.
        clock: Monotonic seconds.
    """

    name = "dcgm"

    def __init__(
        self, *, url: str = DEFAULT_URL, uuid: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url, self._uuid, self._clock = url, uuid, clock
        self._rates = Rates()

    def open(self) -> str | None:
        """Ask once."""
        try:
            samples = self._samples()
        except (OSError, ValueError, http.client.HTTPException) as error:
            return f"no DCGM exporter at {self._url}: {error}"
        if not any(sample.name in _FIELDS for sample in samples):
            return f"{self._url} is no DCGM exporter, or does not know the device {self._uuid or '(none was named)'}"
        return None

    def read(self) -> dict[str, float | None]:
        """One look. An exporter that does not answer in time leaves a gap."""
        try:
            samples = self._samples()
        except (OSError, ValueError, http.client.HTTPException):
            return {}
        now = self._clock()
        found: dict[str, float | None] = {}
        by_name = {sample.name: sample for sample in samples}
        for field, (series, factor) in _FIELDS.items():
            sample = by_name.get(field)
            if sample is None or found.get(series) is not None:
                continue
            # Older configurations export the PCIe fields as counters, newer ones as rates.
            value = self._rates.per_s(field, value=sample.value, at=now) if sample.is_counter else sample.value
            found[series] = None if value is None else factor * value
        return found

    def close(self) -> None:
        """Nothing is open."""

    def _samples(self) -> list[Sample]:
        # The address is set by whoever runs the machine; a file:// there would be read as text and found to be none.
        with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see above
            text = answer.read(_MOST_BYTES).decode("utf-8", errors="replace")
        samples = list(parse(text))
        devices = {sample.labels.get("UUID") for sample in samples if sample.name in _FIELDS}
        wanted = self._uuid if self._uuid is not None else (devices.pop() if len(devices) == 1 else None)
        return [sample for sample in samples if sample.labels.get("UUID") == wanted and _whole_device(sample)]


def _whole_device(sample: Sample) -> bool:
    """Not a slice of a device (MIG): those share the UUID and carry a profile."""
    return not sample.labels.get("GPU_I_PROFILE")

"""The same suite for all readers of a device, and what each of them has of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from include.training.telemetry.dcgm import DcgmReader, parse
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
from include.training.telemetry.nvml import NvmlReader
from include.training.telemetry.readers import Reader

MINE, OTHER = "GPU-1111", "GPU-2222"


class FakeNvmlError(Exception):
    """What the binding raises."""


def fake_nvml(*, devices: tuple[str, ...] = (MINE, OTHER), unsupported: tuple[str, ...] = ()) -> SimpleNamespace:
    """The part of ``pynvml`` that the reader uses; ``running`` counts the calls that opened it and did not close it."""
    found = SimpleNamespace(running=0, NVML_PCIE_UTIL_TX_BYTES=0, NVML_PCIE_UTIL_RX_BYTES=1)

    def run(change: int) -> None:
        found.running += change

    def fail(*_: object) -> None:
        raise FakeNvmlError("Not Supported")

    def by_uuid(uuid: str) -> str:
        return uuid if uuid in devices else fail()

    answers = {
        "nvmlInit": lambda: run(+1),
        "nvmlShutdown": lambda: run(-1),
        "nvmlDeviceGetCount": lambda: len(devices),
        "nvmlDeviceGetHandleByIndex": lambda index: devices[index],
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetUtilizationRates": lambda device: SimpleNamespace(gpu=73 if device == MINE else 5, memory=41),
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=30 * 2**30, total=80 * 2**30),
        "nvmlDeviceGetPowerUsage": lambda _: 251_500,
        "nvmlDeviceGetPcieThroughput": lambda _, counter: (20_000, 3_000_000)[counter],
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda _: 4,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda _: 16,
    }
    for name, answer in answers.items():
        setattr(found, name, fail if name in unsupported else answer)
    return found


class Exporter:
    """An HTTP server that answers as a DCGM exporter does."""

    def __init__(self) -> None:
        self.text = exporter_text()
        self.status = 200
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(exporter.status)
                self.end_headers()
                self.wfile.write(exporter.text.encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def exporter_text(**changed: float | None) -> str:
    values = {
        "DCGM_FI_DEV_GPU_UTIL": 73,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 41,
        "DCGM_FI_DEV_FB_USED": 30 * 1024,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.31,
        "DCGM_FI_PROF_SM_ACTIVE": 0.66,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.22,
        "DCGM_FI_PROF_PCIE_RX_BYTES": 3e9,
        "DCGM_FI_PROF_PCIE_TX_BYTES": 2e7,
        "DCGM_FI_DEV_POWER_USAGE": 251.5,
        **changed,
    }
    lines = []
    for name, value in values.items():
        if value is None:
            continue
        labels = f'gpu="0",UUID="{MINE}",modelName="some \\"quoted\\" name, with a comma"'
        lines += [f"# HELP {name} text", f"# TYPE {name} gauge", f"{name}{{{labels}}} {value}"]
        lines.append(f'{name}{{gpu="1",UUID="{OTHER}",modelName="x"}} 1')
    return "\n".join(lines) + "\n"


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter()
    yield server
    server.close()


@pytest.fixture(params=["nvml", "dcgm"])
def device_reader(request: pytest.FixtureRequest, exporter: Exporter) -> Callable[..., Reader]:
    def make(uuid: str | None) -> Reader:
        if request.param == "nvml":
            return NvmlReader(uuid=uuid, binding=fake_nvml())
        return DcgmReader(url=exporter.url, uuid=uuid)

    return make


def test_reader_tells_the_device_that_was_named(device_reader: Callable[..., Reader]) -> None:
    reader = device_reader(MINE)
    assert reader.open() is None
    found = reader.read()
    reader.close()
    assert found[GPU_BUSY] == pytest.approx(0.73)
    assert found[GPU_MEMORY_BUSY] == pytest.approx(0.41)
    assert found[GPU_MEMORY_USED] == 30 * 2**30
    assert found[GPU_POWER] == pytest.approx(251.5)
    assert found[PCIE_TO_DEVICE] == pytest.approx(3e9)
    assert found[PCIE_FROM_DEVICE] == pytest.approx(2e7)


@pytest.mark.parametrize("uuid", ["GPU-3333", None])
def test_device_that_is_unknown_or_unnamed_among_several_is_not_guessed(
    uuid: str | None, device_reader: Callable[..., Reader]
) -> None:
    assert device_reader(uuid).open() is not None


def test_nvml_gives_what_is_supported_and_the_rest_is_unknown() -> None:
    reader = NvmlReader(uuid=MINE, binding=fake_nvml(unsupported=("nvmlDeviceGetPowerUsage",)))
    assert reader.open() is None
    found = reader.read()
    assert found[GPU_POWER] is None
    assert found[GPU_BUSY] is not None


def test_nvml_takes_the_only_device_and_tells_its_link() -> None:
    nvml = fake_nvml(devices=(MINE,))
    reader = NvmlReader(binding=nvml)
    assert reader.open() is None
    assert reader.pcie_bytes_per_s() == pytest.approx(31.5e9, rel=0.01)
    reader.close()
    assert nvml.running == 0


def test_machine_without_a_driver_says_so() -> None:
    reason = NvmlReader().open()
    assert reason is not None
    assert "NVML" in reason


def test_exporter_tells_activities_that_nvml_does_not(exporter: Exporter) -> None:
    reader = DcgmReader(url=exporter.url, uuid=MINE)
    assert reader.open() is None
    found = reader.read()
    assert (found[SM_ACTIVE], found[TENSOR_ACTIVE], found[DRAM_ACTIVE]) == (0.66, 0.31, 0.22)


def test_other_name_of_the_tensor_activity_is_accepted(exporter: Exporter) -> None:
    exporter.text = exporter_text(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=None, DCGM_FI_DEV_TENSOR_ACTIVE=0.44)
    assert DcgmReader(url=exporter.url, uuid=MINE).read()[TENSOR_ACTIVE] == 0.44


def test_field_that_is_not_exported_is_absent_and_not_zero(exporter: Exporter) -> None:
    exporter.text = exporter_text(DCGM_FI_PROF_SM_ACTIVE=None)
    assert DcgmReader(url=exporter.url, uuid=MINE).read().get(SM_ACTIVE) is None


def test_traffic_as_a_counter_becomes_a_rate(exporter: Exporter) -> None:
    now = [10.0]
    reader = DcgmReader(url=exporter.url, uuid=MINE, clock=lambda: now[0])

    def text(total: float) -> str:
        name = "DCGM_FI_PROF_PCIE_RX_BYTES"
        return f'# TYPE {name} counter\n{name}{{UUID="{MINE}"}} {total}\n'

    exporter.text = text(5e9)
    assert reader.read()[PCIE_TO_DEVICE] is None
    now[0], exporter.text = 12.0, text(9e9)
    assert reader.read()[PCIE_TO_DEVICE] == pytest.approx(2e9)
    now[0], exporter.text = 13.0, text(1e9)
    assert reader.read()[PCIE_TO_DEVICE] is None, "a counter that went back was reset"


def test_slice_of_a_device_is_not_taken_for_the_device(exporter: Exporter) -> None:
    exporter.text = f'DCGM_FI_DEV_GPU_UTIL{{UUID="{MINE}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 99\n'
    assert DcgmReader(url=exporter.url, uuid=MINE).read() == {}


def test_server_that_is_no_exporter_is_done_without(exporter: Exporter) -> None:
    exporter.text = "<html>hello</html>"
    assert "no DCGM exporter" in str(DcgmReader(url=exporter.url, uuid=MINE).open())
    exporter.status = 500
    assert DcgmReader(url=exporter.url, uuid=MINE).open() is not None


def test_exporter_that_goes_away_leaves_a_gap(exporter: Exporter) -> None:
    reader = DcgmReader(url=exporter.url, uuid=MINE)
    assert reader.open() is None
    exporter.status = 503
    assert reader.read() == {}
    exporter.status = 200
    assert reader.read()[GPU_BUSY] is not None


def test_nobody_listening_is_no_error() -> None:
    assert "no DCGM exporter" in str(DcgmReader(url="http://127.0.0.1:9/metrics").open())


@pytest.mark.parametrize(
    "line", ["", "# a comment", "name", 'name{a="b"', 'name{a="b"} NaNa', "name +Inf", "name -Inf", "name NaN"]
)
def test_lines_that_hold_no_number_are_passed_over(line: str) -> None:
    assert [sample.name for sample in parse(f"{line}\nlast 2.5e-1 1700000000\n")] == ["last"]

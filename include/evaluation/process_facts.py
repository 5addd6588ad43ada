"""What the measuring process knows of itself: peak memory, runtime and processor."""

from __future__ import annotations

import platform
from pathlib import Path

import onnxruntime

_KIB = 1024
# Spelt as in /proc/cpuinfo. VNNI decides how much INT8 arithmetic gains, the others which kernels run at all.
_FLAGS = {"avx2": ("avx2",), "avx512": ("avx512f",), "vnni": ("avx512_vnni", "avx_vnni"), "amx-int8": ("amx_int8",)}
_ARM_FLAGS = {"dot-product": ("asimddp",), "int8-matmul": ("i8mm",)}


def peak_rss_bytes(status: Path = Path("/proc/self/status")) -> int:
    """Peak resident memory of this process since its program was loaded.

    `resource.getrusage` is not used: on Linux its figure survives exec and so may be that of the parent.

    Raises:
        LookupError: The kernel does not report it.
    """
    for line in status.read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * _KIB
    raise LookupError(f"no VmHWM in {status}")


def _cpu_fields(cpuinfo: str) -> dict[str, str]:
    first_cpu = cpuinfo.split("\n\n", maxsplit=1)[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first_cpu.splitlines())}


def describe_cpu(cpuinfo: str) -> str:
    r"""Model and the instruction sets that matter to INT8, from the text of /proc/cpuinfo.

    >>> describe_cpu("model name : Example\nflags : fpu avx2 avx_vnni")
    'Example; avx2=yes avx512=no vnni=yes amx-int8=no'
    """
    fields = _cpu_fields(cpuinfo)
    names = _ARM_FLAGS if "Features" in fields else _FLAGS
    present = set(fields.get("flags", fields.get("Features", "")).split())
    marks = " ".join(f"{name}={'yes' if present & set(spellings) else 'no'}" for name, spellings in names.items())
    return f"{fields.get('model name', platform.machine())}; {marks}"


def runtime_description(*, provider: str, threads: int) -> str:
    """Runtime, version, provider, threads and processor in one line."""
    cpu = describe_cpu(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return f"onnxruntime {onnxruntime.__version__}; {provider}; threads={threads}; {cpu}"

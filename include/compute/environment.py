"""The environment that agents and jobs get: an allow-list, because Airflow's own holds keys of its database and API."""

from __future__ import annotations

from collections.abc import Mapping

NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "XDG_CACHE_HOME", "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    }
)  # fmt: skip
PREFIXES = ("LC_", "PLIMSOLL_", "AWS_")


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that agents and jobs may see."""
    return {name: value for name, value in environ.items() if name in NAMES or name.startswith(PREFIXES)}

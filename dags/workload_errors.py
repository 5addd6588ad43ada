"""Shows the mistakes of all invalid workload files as one import error, while the valid DAGs stay healthy.

Airflow only parses files that mention both of these words: airflow and dag.
"""

from __future__ import annotations

from include.config.loader import load_folder
from include.config.settings import Settings
from include.core.errors import WorkloadError

_errors = load_folder(Settings.from_environment().workloads).errors
if _errors:
    raise WorkloadError("invalid workload files:\n" + "\n".join(str(error) for error in _errors.values()))

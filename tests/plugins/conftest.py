"""Airflow in this process uses a private home; operators use a store, ledger and engine of their own."""

from __future__ import annotations

import os
import tempfile

_HOME = tempfile.mkdtemp(prefix="plimsoll-airflow-")
# Before anything imports Airflow: it reads its configuration once.
os.environ.setdefault("AIRFLOW_HOME", _HOME)
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
os.environ.setdefault("AIRFLOW__CORE__UNIT_TEST_MODE", "True")

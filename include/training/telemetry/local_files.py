"""Names of the files by which telemetry goes from a worker to its launcher."""

from __future__ import annotations

TELEMETRY = "telemetry.json"
# Made by a person or a program in a running job's folder: {"steps": 5}, or empty.
PROFILE_ORDER = "profile_order.json"
TRACES = "traces"

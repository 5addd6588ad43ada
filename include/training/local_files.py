"""Names of the files in a job's scratch folder, by which worker, launcher and agent talk."""

from __future__ import annotations

ORDER = "worker_order.json"
STARTED = "worker_started.json"
OUTCOME = "worker_outcome.json"
STEPS = "steps.json"
PROGRESS = "progress.json"
NOTICE = "notice.json"

"""``python -m include.jobs <kind> <request-uri>``: run one job and write ``result.json`` last.

Exit codes are those of `include.core.exit_codes.ExitCode`. The outcome file tells success, preemption and error from
death by signal, which writes nothing.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from pathlib import Path

from pydantic import BaseModel, ValidationError

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.errors import PreemptedError, UserError
from include.core.exit_codes import ExitCode
from include.core.process import die_with_parent
from include.core.store import ObjectStore
from include.jobs.context import JobContext

_log = logging.getLogger("plimsoll.job")


def _load(kind: str, request_uri: str) -> JobContext:
    settings = Settings.from_environment()
    store = ObjectStore(settings.store)
    raw = store.get_json(store.key_of(request_uri))
    if raw is None:
        raise UserError("no such request", where=request_uri, todo="submit the job again")
    request = JobRequest.model_validate(raw)
    if request.kind != kind:
        raise UserError("request is for another kind of job", where=request_uri, found=request.kind, allowed=kind)
    job_dir = Path(os.environ.get("PLIMSOLL_JOB_DIR", ".")).resolve()
    job_dir.mkdir(parents=True, exist_ok=True)
    return JobContext(request=request, settings=settings, store=store, job_dir=job_dir)


def _execute(context: JobContext) -> ExitCode:
    request = context.request
    outcome_key = f"{request.base}/outcome.json"
    try:
        result: BaseModel = importlib.import_module(f"include.jobs.{request.kind}").run(context)
    except PreemptedError as notice:
        _log.info("%s", notice)
        context.store.put_json(
            outcome_key, {"status": "preempted", "step": notice.step, "checkpoint": notice.checkpoint}
        )
        return ExitCode.PREEMPTED
    except UserError as error:
        _log.error("%s", error)
        context.store.put_json(outcome_key, {"status": "bad_input", "error": str(error)})
        return ExitCode.BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the one boundary: every failure becomes an outcome and an exit code
        _log.error("job failed\n%s", traceback.format_exc())
        context.store.put_json(outcome_key, {"status": "error", "error": f"{type(error).__name__}: {error}"})
        return ExitCode.ERROR
    context.store.put_json(outcome_key, {"status": "done"})
    context.store.put_json(f"{request.base}/result.json", result.model_dump(mode="json"))
    return ExitCode.DONE


def main(arguments: list[str]) -> ExitCode:
    """Run one job.

    Args:
        arguments: Kind and request URI.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    kind, request_uri = arguments
    try:
        context = _load(kind, request_uri)
    except (UserError, ValidationError) as error:
        _log.error("bad request: %s", error)
        return ExitCode.BAD_INPUT
    _log.info("run=%s job=%s attempt=%s", context.request.run_id, kind, context.request.attempt)
    return _execute(context)


if __name__ == "__main__":
    die_with_parent()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of torch and MLflow costs more than a second and may turn a finished job into a crash.
    os._exit(code)

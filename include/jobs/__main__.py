"""``python -m include.jobs <kind> <request-uri>``: run one job and write ``result.json`` last.

Exit codes are those of `include.core.exit_codes.ExitCode`. The outcome file tells success, preemption and error from
death by signal, which writes nothing.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path

from pydantic import BaseModel, ValidationError

from include.config.job_messages import JobRequest
from include.config.loader import describe
from include.config.settings import Settings
from include.core.errors import PreemptedError, UserError
from include.core.exit_codes import ExitCode
from include.core.node_place import NodePlace
from include.core.process import die_with_parent
from include.core.store import ObjectStore
from include.jobs.context import JobContext

_log = logging.getLogger("plimsoll.job")
_JOB_DIR = "PLIMSOLL_JOB_DIR"


def _load(kind: str, request_uri: str) -> JobContext:
    settings = Settings.from_environment()
    store = ObjectStore(settings.store)
    request = _read_request(store, request_uri)
    if request.kind != kind:
        raise UserError("request is for another kind of job", where=request_uri, found=request.kind, allowed=kind)
    node = NodePlace.from_environment(os.environ)
    if node is not None:
        request = request.model_copy(update={"base": node.base_of(request.base)})
    return JobContext(request=request, settings=settings, store=store, job_dir=_job_dir(), node=node)


def _read_request(store: ObjectStore, uri: str) -> JobRequest:
    data = store.get(store.key_of(uri))
    if data is None:
        raise UserError("no such request", where=uri, todo="submit the job again")
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(
            "the request is no JSON", where=uri, found=repr(data[:60]), todo="submit the job again"
        ) from error
    try:
        return JobRequest.model_validate(raw)
    except ValidationError as error:
        lines = describe(error, raw, root=JobRequest)
        raise UserError("\n  ".join(["the request has mistakes", *lines]), where=uri) from error


def _job_dir() -> Path:
    """The scratch folder, which has to take files: what is not told there is lost."""
    job_dir = Path(os.environ.get(_JOB_DIR, ".")).resolve()
    probe = job_dir / f".probe-{os.getpid()}"
    try:
        job_dir.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            "the scratch folder takes no files",
            where=_JOB_DIR,
            found=f"{job_dir}: {error.strerror}",
            allowed="a folder to write to",
        ) from error
    return job_dir


def _stored(context: JobContext, name: str, document: object) -> bool:
    """Put a document beside the request; a store that does not take it is told of in one line."""
    key = f"{context.request.base}/{name}"
    try:
        context.store.put_json(key, document)
    except Exception as error:  # noqa: BLE001 - whatever a store raises, there is nobody else to tell
        found = (str(error).splitlines() or [type(error).__name__])[0]
        _log.error("the store takes no writes | where: %s | found: %s", context.store.uri(key), found)
        return False
    return True


def _tell(context: JobContext, **outcome: object) -> None:
    """Leave the outcome. Where that fails, the job is taken for one that a signal ended, and tried again."""
    _stored(context, "outcome.json", outcome)


def _execute(context: JobContext) -> ExitCode:
    request = context.request
    try:
        result: BaseModel = importlib.import_module(f"include.jobs.{request.kind}").run(context)
    except PreemptedError as notice:
        _log.info("%s", notice)
        _tell(context, status="preempted", step=notice.step, checkpoint=notice.checkpoint)
        return ExitCode.PREEMPTED
    except UserError as error:
        _log.error("%s", error)
        _tell(context, status="bad_input", error=str(error))
        return ExitCode.BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the one boundary: every failure becomes an outcome and an exit code
        _log.error("job failed\n%s", traceback.format_exc())
        if context.store.get_json(f"{request.base}/outcome.json") == {"status": "done"}:
            _log.error("another process has finished this attempt; its outcome stays")
            return ExitCode.ERROR
        _tell(context, status="error", error=f"{type(error).__name__}: {error}")
        return ExitCode.ERROR
    _tell(context, status="done")
    if not _stored(context, "result.json", result.model_dump(mode="json")):
        return ExitCode.ERROR
    return ExitCode.DONE


def main(arguments: list[str]) -> ExitCode:
    """Run one job.

    Args:
        arguments: Kind and request URI.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    if len(arguments) != 2:  # noqa: PLR2004 - kind and request
        _log.error("usage: python -m include.jobs <kind> <request-uri>")
        return ExitCode.BAD_INPUT
    kind, request_uri = arguments
    try:
        context = _load(kind, request_uri)
    except UserError as error:
        _log.error("bad request: %s", error)
        return ExitCode.BAD_INPUT
    # Asked before a job works for hours and cannot tell how it ended.
    if not _stored(context, "started.json", {"attempt": context.request.attempt}):
        return ExitCode.ERROR
    _log.info("run=%s job=%s attempt=%s", context.request.run_id, kind, context.request.attempt)
    return _execute(context)


if __name__ == "__main__":
    die_with_parent()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of torch and MLflow costs more than a second and may turn a finished job into a crash.
    os._exit(code)

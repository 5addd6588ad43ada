"""``python -m include.serving.server``: the model server, one process that its supervisor starts and ends.

It serves whatever the desired states in the store ask for (store from ``PLIMSOLL_STORE``) and ends on SIGTERM after
answering what is queued.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys

from include.config.settings import Settings
from include.core.errors import UserError
from include.core.process import die_with_parent
from include.core.store import ObjectStore
from include.serving.app import RequestLimits, build_app
from include.serving.desired import SERVING_PREFIX
from include.serving.endpoints import BatchSettings, EndpointTable
from include.serving.metrics import ServerMetrics

_log = logging.getLogger("plimsoll.serving")
# Seconds that open requests may still take once the server was asked to end.
_GRACE_S = 5


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m include.serving.server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free port; actual.json names it")
    parser.add_argument("--prefix", default=SERVING_PREFIX, help="store prefix of the desired states")
    parser.add_argument("--poll-s", type=float, default=0.5, help="seconds between two looks at the store")
    parser.add_argument("--max-batch-rows", type=int, default=64)
    parser.add_argument("--max-wait-ms", type=float, default=2.0, help="wait for a fuller batch under load")
    parser.add_argument("--max-queue", type=int, default=512, help="requests that may wait per endpoint")
    parser.add_argument("--deadline-ms", type=float, default=1000.0, help="longest wait in the queue")
    parser.add_argument("--max-body-bytes", type=int, default=RequestLimits().max_body_bytes)
    parser.add_argument("--die-with-parent", action="store_true", help="end when the starting process ends")
    return parser.parse_args(argv)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        _log.error("cannot listen on %s:%s: %s; choose another --port", host, port, error)
        raise SystemExit(1) from error


def main(argv: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    arguments = _arguments(argv)
    if arguments.die_with_parent:
        die_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    import uvicorn  # noqa: PLC0415 - not needed to print the help

    try:
        settings = Settings.from_environment()
    except UserError as error:
        raise SystemExit(str(error)) from error
    listener = _listen(arguments.host, arguments.port)
    metrics = ServerMetrics()
    table = EndpointTable(
        store=ObjectStore(settings.store),
        url=f"http://{arguments.host}:{listener.getsockname()[1]}",
        metrics=metrics,
        prefix=arguments.prefix,
        poll_s=arguments.poll_s,
        batching=BatchSettings(
            max_rows=arguments.max_batch_rows,
            max_wait_s=arguments.max_wait_ms / 1000,
            max_queue=arguments.max_queue,
        ),
    )
    limits = RequestLimits(max_body_bytes=arguments.max_body_bytes, deadline_s=arguments.deadline_ms / 1000)
    app = build_app(table=table, metrics=metrics, limits=limits)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE_S)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1:])

"""``python -m stack.ec2_double --port N``: the double as a server that ends its agents when it is ended."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from include.config.settings import REPO
from stack.ec2_double.agent_host import AgentHost
from stack.ec2_double.double import Ec2Double
from stack.ec2_double.market import Market
from stack.ec2_double.server import DoubleServer

_log = logging.getLogger("plimsoll.ec2_double")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stack.ec2_double", description="A test double of EC2 on 127.0.0.1.")
    parser.add_argument("--port", type=int, required=True, help="port to listen on; 0 takes a free one")
    parser.add_argument("--market", type=Path, help="JSON file of capacity, prices and reclaims; default: everything")
    parser.add_argument(
        "--work-root",
        type=Path,
        default=Path(os.environ.get("PLIMSOLL_WORK_ROOT") or REPO / "var" / "work") / "ec2-double",
        help="folder of the instances' work folders",
    )
    parser.add_argument("--boot-s", type=float, default=1.0, help="seconds that an instance is pending")
    parser.add_argument("--shutdown-s", type=float, default=2.0, help="seconds that an instance is shutting down")
    parser.add_argument("--dead-man-s", type=float, help="seconds of the dead man's switch; default: the user data's")
    parser.add_argument(
        "--agent-variable", action="append", default=[], metavar="NAME=VALUE", help="further variable of every agent"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    options = _options(arguments)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    variables = dict(pair.partition("=")[::2] for pair in options.agent_variable)
    agents = AgentHost(options.work_root, environment=variables, dead_man_s=options.dead_man_s)
    if left := agents.end_leftovers():
        _log.warning("ended %d agents of a double that was killed", left)
    double = Ec2Double(
        market=Market.from_file(options.market) if options.market else None,
        agents=agents,
        boot_s=options.boot_s,
        shutdown_s=options.shutdown_s,
    )
    server = DoubleServer(double, port=options.port)
    server.start()
    _log.info("listening at %s, account %s", server.url, double.account_id)
    over.wait()
    server.stop()
    _log.info("ended with %s", dict(double.counters))
    return 0


if __name__ == "__main__":
    sys.exit(main())

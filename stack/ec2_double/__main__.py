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

from pydantic import ValidationError

from include.config.settings import REPO
from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from stack.ec2_double.agent_host import AgentHost
from stack.ec2_double.double import Ec2Double
from stack.ec2_double.market import Market
from stack.ec2_double.server import DoubleServer

_log = logging.getLogger("plimsoll.ec2_double")


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"{text!r} is no port | allowed: 0 to 65535")
    return int(text)


def _market(path: Path | None) -> Market | None:
    if path is None:
        return None
    try:
        return Market.from_file(path)
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors()]
        raise UserError("the market file has mistakes", where=str(path), found="; ".join(mistakes)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("the market file cannot be read", where=str(path), found=str(error)) from error


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stack.ec2_double", description="A test double of EC2 on 127.0.0.1.")
    parser.add_argument("--port", type=_port, required=True, help="port to listen on; 0 takes a free one")
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
    try:
        _serve(options)
    except UserError as error:
        _log.error("%s", error)
        return ExitCode.BAD_INPUT
    return 0


def _serve(options: argparse.Namespace) -> None:
    variables = dict(pair.partition("=")[::2] for pair in options.agent_variable)
    agents = AgentHost(options.work_root, environment=variables, dead_man_s=options.dead_man_s)
    double = Ec2Double(
        market=_market(options.market), agents=agents, boot_s=options.boot_s, shutdown_s=options.shutdown_s
    )
    try:
        server = DoubleServer(double, port=options.port)
    except OSError as error:
        raise UserError("the double cannot listen", where=f"port {options.port}", found=str(error)) from error
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    # Only now: a second double on this port must not end the agents of the first.
    if left := agents.end_leftovers():
        _log.warning("ended %d agents of a double that was killed", left)
    server.start()
    _log.info("listening at %s, account %s", server.url, double.account_id)
    over.wait()
    server.stop()
    _log.info("ended with %s", dict(double.counters))


if __name__ == "__main__":
    sys.exit(main())

"""What the command line of ``make run`` asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from stack.installation import StackSettings

DEFAULT_WORKLOAD = "digits"
LOCAL, EC2_LOCAL = "local", "ec2-local"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What the command line asks for.

    Attributes:
        workload: Name of the workload.
        once: Stop everything at the end.
        drill: Interrupt the training: once on this machine, twice on the EC2 double.
        engine: ``local``, or ``ec2-local`` for the engine for EC2 on a double of it.
    """

    workload: str
    once: bool
    drill: bool
    engine: str = LOCAL

    def on(self, settings: StackSettings) -> StackSettings:
        """The settings of a stack with the asked engine."""
        return settings.model_copy(update={"ec2_double": True}) if self.engine == EC2_LOCAL else settings


def parse(arguments: Sequence[str] | None = None) -> RunOrder:
    """The order on the command line."""
    parser = argparse.ArgumentParser(
        prog="make run",
        description="The stack, one lifecycle run, its progress, its summary, and an exit status that tells the truth.",
    )
    parser.add_argument("--workload", default="", help=f"name of the workload, default {DEFAULT_WORKLOAD}")
    parser.add_argument("--once", action="store_true", help="stop everything at the end")
    parser.add_argument(
        "--drill",
        choices=("0", "1", ""),
        default="",
        help="interrupt the training; default: only without --workload, and on ec2-local",
    )
    parser.add_argument(
        "--engine", choices=(LOCAL, EC2_LOCAL, ""), default="", help="where trainings run; default: local"
    )
    options = parser.parse_args(arguments)
    engine = options.engine or LOCAL
    drill = options.drill == "1" if options.drill else not options.workload or engine == EC2_LOCAL
    return RunOrder(workload=options.workload or DEFAULT_WORKLOAD, once=options.once, drill=drill, engine=engine)

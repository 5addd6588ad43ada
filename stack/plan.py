"""``make plan``: what a workload's training needs, the best plan for it, and what else there would be. No Airflow."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from include.catalog.local import local_offer
from include.catalog.offers import load_offers
from include.config.settings import Settings
from include.core.clock import SystemClock
from include.core.contracts.correction import Correction
from include.core.contracts.experience import Experience
from include.core.contracts.plan import Plan
from include.core.errors import PlimsollError, UserError
from include.core.exit_codes import ExitCode
from include.core.json_codec import to_json
from include.ledger.corrections import read_corrections
from include.ledger.experience import read_experience
from include.ledger.ledger import Ledger
from include.sizing.limits import QUOTA_CLASSES
from include.sizing.plan_text import describe
from include.sizing.planner import make_plan
from include.sizing.question import check_question, with_engine
from stack import dag_ready
from stack.child_environment import settings_of
from stack.errors import SettingsError, StackError
from stack.installation import Installation, StackSettings
from stack.plan_demand import DemandSource, JobRefusedError
from stack.ports import WANTED, Ports
from stack.settings_mistakes import read_settings

DEFAULT_WORKLOAD = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder:
    """What the command line asks for.

    Attributes:
        workload: Name of the workload.
        engine: Engine that may launch, instead of the workload's; ``any`` for every one.
        quota: vCPUs by class of instances.
        as_json: Print the plan as JSON and nothing else.
        fresh: Find out again what the training needs.
    """

    workload: str
    engine: str | None
    quota: dict[str, int]
    as_json: bool
    fresh: bool


def parse(arguments: Sequence[str] | None = None) -> PlanOrder:
    """The order on the command line.

    Raises:
        SettingsError: A value cannot be used.
    """
    parser = argparse.ArgumentParser(prog="make plan", description=__doc__)
    parser.add_argument("--workload", default="", help=f"name of the workload, default {DEFAULT_WORKLOAD}")
    parser.add_argument("--engine", default="", help="any, local, ec2 or one's own; default: what the workload says")
    parser.add_argument("--quota", default="", help="vCPUs by class of instances, such as p=96,g=64,standard=32")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--fresh", action="store_true", help="find out again what the training needs")
    options = parser.parse_args(arguments)
    return PlanOrder(
        workload=options.workload or DEFAULT_WORKLOAD,
        engine=options.engine or None,
        quota=parse_quota(options.quota),
        as_json=options.json,
        fresh=options.fresh,
    )


def parse_quota(text: str) -> dict[str, int]:
    """``p=96,g=64`` as a mapping.

    Raises:
        SettingsError: It is none.
    """
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, separator, number = part.partition("=")
        if not separator or kind not in QUOTA_CLASSES or not number.isdigit():
            classes = ", ".join(QUOTA_CLASSES)
            raise SettingsError(
                f"QUOTA | found: {part!r} | allowed: class=vCPUs, such as p=96,g=64; classes: {classes}"
            )
        if kind in found:
            raise SettingsError(f"QUOTA | found: {kind} twice in {text!r} | allowed: each class once")
        found[kind] = int(number)
    return found


def plan_workload(order: PlanOrder, settings: Settings, *, say: Callable[[str], None]) -> Plan:
    """The plan of a workload of the installation.

    Raises:
        StackError: There is no such workload, or a job failed or refused its input.
        UserError: Nothing fits, or the workload asks for something that does not exist.
    """
    chosen, warnings = dag_ready.choose_workload(settings.workloads, order.workload)
    workload = with_engine(chosen, settings)
    for warning in warnings:
        say(warning)
    now = SystemClock().now()
    learned = _learned(settings, say)
    catalog = load_offers(settings, today=now.date(), experience=learned.experience)
    for note in catalog.notes:
        say(f"note: {note}")
    offers = (local_offer(settings, today=now.date()), *catalog.offers)
    # Finding out what a training needs takes minutes, so what needs no data is refused before it.
    check_question(workload, offers, engine=order.engine, now=now)
    found = DemandSource(settings=settings, say=say).of(workload, fresh=order.fresh)
    say(f"demand {'found again' if found.cached else 'made now'}: {found.demand.method}")
    return make_plan(
        demand=found.demand,
        offers=offers,
        workload=workload,
        settings=settings,
        today=now.date(),
        now=SystemClock().now(),
        engine=order.engine,
        quota=order.quota,
        corrections=learned.corrections,
    )


class Learned(NamedTuple):
    """What earlier runs taught."""

    corrections: tuple[Correction, ...] = ()
    experience: tuple[Experience, ...] = ()


def _learned(settings: Settings, say: Callable[[str], None]) -> Learned:
    """What earlier runs taught; nothing where there is no ledger yet, which is not made for this."""
    file = settings.ledger.removeprefix("sqlite:///")
    if file != settings.ledger and not Path(file).exists():
        return Learned()
    ledger = Ledger(settings.ledger)
    try:
        return Learned(read_corrections(ledger), read_experience(ledger))
    except SQLAlchemyError as error:
        say(f"note: nothing is learned from earlier runs, the ledger cannot be read: {str(error).splitlines()[0]}")
        return Learned()


def execute(order: PlanOrder, stack_settings: StackSettings) -> int:
    """Plan and print; returns the exit status."""

    def say(line: str) -> None:
        # With JSON=1 the standard output is for the plan alone.
        print(line, file=sys.stderr if order.as_json else sys.stdout, flush=True)

    settings = settings_of(Installation.of(stack_settings), Ports(**WANTED))
    plan = plan_workload(order, settings, say=say)
    if order.as_json:
        print(json.dumps(to_json(plan), indent=2))
    else:
        print("\n".join(["", *describe(plan)]))
    return ExitCode.DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: a person's mistake is one line and status 64."""
    try:
        order = parse(arguments)
        return execute(order, read_settings())
    except (SettingsError, JobRefusedError, UserError, dag_ready.UnknownWorkloadError) as error:
        return _refuse(str(error), ExitCode.BAD_INPUT)
    except (StackError, PlimsollError) as error:
        return _refuse(str(error), ExitCode.ERROR)
    except OSError as error:
        place = error.filename or os.environ.get("PLIMSOLL_VAR", "")
        return _refuse(
            f"a file cannot be read or written | where: {place} | found: {error.strerror or error}", ExitCode.ERROR
        )


def _refuse(text: str, status: ExitCode) -> int:
    for line in text.splitlines():
        print(f"make plan: {line}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

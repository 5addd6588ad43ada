"""Many small models on the fewest GPUs: solvers over a packing file."""

from __future__ import annotations

from include.core.errors import UserError
from include.sizing.packing_answer import Packing, answer
from include.sizing.packing_bound import lower_bound
from include.sizing.packing_exact import EXACT, is_available, solve_exactly
from include.sizing.packing_file import PackingFile
from include.sizing.packing_first_fit import first_fit
from include.sizing.packing_items import ISOLATIONS, Assignment, Isolation
from include.sizing.packing_load import fits_somewhere
from include.sizing.packing_mig import pieces_of

# Items times devices up to which the exact search is tried.
MOST_PLACES = 20_000


def pack(order: PackingFile) -> Packing:
    """Answer a packing file.

    Raises:
        UserError: The exact solver is asked for and not installed, or MIG of devices that cannot be cut.
    """
    if order.solver == "cp-sat" and not is_available():
        raise UserError(
            "the exact solver is not installed",
            where="solver: cp-sat",
            todo="`.venv/bin/uv pip install -r requirements/packing.txt`, or solver: first-fit",
        )
    exact = order.solver != "first-fit" and is_available()
    if order.isolation != "auto":
        found = assign(order, order.isolation, exact=exact)
        return answer(order, order.isolation, found, notes=_notes(found, exact=exact))
    tried = {kind: assign(order, kind, exact=exact) for kind in ISOLATIONS if _possible(order, kind)}
    best = min(tried, key=lambda kind: (_missing(order, tried[kind]), tried[kind].devices, ISOLATIONS.index(kind)))
    others = [f"{kind} needs {_in_words(found)}" for kind, found in tried.items() if kind != best]
    return answer(order, best, tried[best], notes=(*_notes(tried[best], exact=exact), *others))


def assign(order: PackingFile, isolation: Isolation, *, exact: bool) -> Assignment:
    """Place all replicas of a file under one isolation, as far as they go.

    Args:
        order: The file.
        isolation: How devices are shared.
        exact: Whether CP-SAT improves on first-fit decreasing.

    Raises:
        UserError: MIG of devices that cannot be cut.
    """
    terms, devices = order.terms(isolation), order.all_devices()
    if isolation == "mig":
        devices = tuple(device for device in devices if pieces_of(device))
        if not devices:
            raise UserError(
                "none of the devices can be cut into partitions",
                where="devices.accelerator",
                found=", ".join(sorted({group.accelerator for group in order.devices})),
                todo="use isolation: mps, time-slicing or process, or name the accelerator as the catalog does",
            )
    kinds = list({(d.group): d for d in devices}.values())
    fitting = tuple(item for item in order.items() if fits_somewhere(item, kinds, terms))
    hopeless = tuple(item for item in order.items() if item not in set(fitting))
    found = first_fit(fitting, devices, terms)
    bound = lower_bound(fitting, devices, terms)
    if exact and fitting and len(fitting) * min(len(devices), len(fitting)) <= MOST_PLACES:
        found = solve_exactly(fitting, devices, terms, start=found, bound=bound, time_limit_s=order.time_limit_s)
    proven = found.proven or (not found.left_out and found.devices <= bound)
    return Assignment(
        spots=tuple(
            sorted(found.spots, key=lambda spot: (devices.index(spot.device), spot.start or 0, spot.item.name))
        ),
        left_out=(*hopeless, *found.left_out),
        proven=proven,
        solver=found.solver,
    )


def _possible(order: PackingFile, isolation: Isolation) -> bool:
    return isolation != "mig" or any(pieces_of(device) for device in order.all_devices())


def _missing(order: PackingFile, found: Assignment) -> tuple[int, ...]:
    levels = sorted({model.priority for model in order.models}, reverse=True)
    return tuple(sum(item.priority == level for item in found.left_out) for level in levels)


def _in_words(found: Assignment) -> str:
    left = f", {len(found.left_out)} replicas left out" if found.left_out else ""
    return f"{found.devices} devices{left}"


def _notes(found: Assignment, *, exact: bool) -> tuple[str, ...]:
    if not exact:
        return ("first-fit decreasing; with OR-tools (requirements/packing.txt) CP-SAT looks for better",)
    if found.spots and found.solver != EXACT:
        return ("first-fit decreasing: too many replicas and devices for the exact search",)
    return ()

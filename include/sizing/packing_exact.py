"""The fewest devices by constraint programming (CP-SAT of OR-tools), where that is installed; it is an extra.

One worker and a limit of deterministic time: the same file gives the same answer on every machine.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from include.sizing.packing_items import Assignment, Device, Item, Spot, Terms
from include.sizing.packing_load import Load
from include.sizing.packing_mig import Piece, piece_for, pieces_of
from include.sizing.packing_patterns import largest_sets, lay_out

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# CP-SAT's own measure of work, about a second each on a recent core.
_SEARCH, _BALANCE = 2.0, 0.1
_PER_MILLE = 1000
EXACT = "CP-SAT"


def is_available() -> bool:
    """Whether OR-tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def solve_exactly(
    items: Sequence[Item],
    devices: Sequence[Device],
    terms: Terms,
    *,
    start: Assignment,
    bound: int,
    time_limit_s: float,
) -> Assignment:
    """Improve on an assignment until no better one is left or the time is over.

    Args:
        items: What is to be placed; each fits into some empty device.
        devices: Where it may go.
        terms: Isolation and margins.
        start: A valid assignment; the answer is never worse.
        bound: Devices without which it cannot be done.
        time_limit_s: Seconds for each search.

    Returns:
        Higher priorities first where not all fit; then the fewest devices; then memory and compute filled alike.
    """
    if not start.left_out and start.devices <= bound:
        devices = [device for device in devices if device.name in {spot.device.name for spot in start.spots}]
    search = _Search(items, devices, terms, start=start, time_limit_s=time_limit_s)
    proven = search.place_by_priority() if start.left_out else True
    if start.left_out or start.devices > bound:
        proven = search.fewest_devices(at_least=0 if start.left_out else bound) and proven
    if terms.isolation != "mig":
        search.balance()
    return search.assignment(proven=proven)


class _Search:
    """One model; each goal that is reached becomes a constraint of the next search."""

    def __init__(
        self,
        items: Sequence[Item],
        devices: Sequence[Device],
        terms: Terms,
        *,
        start: Assignment,
        time_limit_s: float,
    ) -> None:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra, and a heavy one

        self._cp, self._items, self._terms = cp_model, items, terms
        self._devices = _worth_a_look(items, devices, start)
        self._time_limit_s = time_limit_s
        self._model: Any = cp_model.CpModel()
        self._places: dict[tuple[Item, Device], Any] = {}
        self._used = {device: self._model.new_bool_var(f"used {device.name}") for device in self._devices}
        self._best = start
        for device in self._devices:
            if terms.isolation == "mig":
                self._cut(device)
            else:
                self._share(device)
        self._placed = {
            item: sum(self._places[item, device] for device in self._devices if (item, device) in self._places)
            for item in items
        }
        self._keep_apart()
        self._break_symmetry()
        for count in self._placed.values():
            self._model.add(count <= 1 if start.left_out else count == 1)
        self._hint(start)

    # ---------------------------------------------------------------- the model

    def _place(self, item: Item, device: Device) -> Any:  # noqa: ANN401 - a variable of an extra
        place = self._model.new_bool_var(f"{item.name} on {device.name}")
        self._places[item, device] = place
        self._model.add_implication(place, self._used[device])
        return place

    def _share(self, device: Device) -> None:
        terms, model = self._terms, self._model
        fitting = [
            item
            for item in self._items
            if terms.need_mib(item) <= terms.usable_mib(device)
            and item.compute <= terms.usable_compute(device, slo=item.slo)
        ]
        here = {item: self._place(item, device) for item in fitting}
        # Times `used`, which the implications say too: the search sees at once what unused devices cannot hold.
        used = self._used[device]
        memory = sum(terms.need_mib(item) * place for item, place in here.items())
        model.add(memory <= terms.usable_mib(device) * used)
        compute = sum(item.compute * place for item, place in here.items())
        model.add(compute <= device.compute * used)
        promised = [place for item, place in here.items() if item.slo]
        if promised and terms.slo_margin:
            slo = model.new_bool_var(f"promise on {device.name}")
            for place in promised:
                model.add_implication(place, slo)
            model.add(compute <= terms.usable_compute(device, slo=True)).only_enforce_if(slo)
        if terms.isolation == "mps":
            clients = sum(here.values())
            shares = []
            for item, place in here.items():
                most = terms.most_clients(item, device)
                model.add(clients <= most).only_enforce_if(place)
                shares.append(_PER_MILLE // most * place)
            model.add(sum(shares) <= _PER_MILLE * used)

    def _cut(self, device: Device) -> None:
        """A device is cut into one of the largest sets of partitions; each item takes one of its kind."""
        model, takers = self._model, defaultdict[Piece, list[Any]](list)
        for item in self._items:
            piece = piece_for(item, device, self._terms)
            if piece is not None:
                takers[piece].append(self._place(item, device))
        kinds = tuple(piece for piece in reversed(pieces_of(device)) if piece in takers)
        sets = largest_sets(kinds)
        chosen = [model.new_bool_var(f"{device.name} as {counts}") for counts in sets]
        model.add(sum(chosen) == self._used[device])
        for number, piece in enumerate(kinds):
            there = sum(counts[number] * choice for counts, choice in zip(sets, chosen, strict=True))
            model.add(sum(takers[piece]) <= there)

    def _keep_apart(self) -> None:
        replicas: dict[str, list[Item]] = defaultdict(list)
        for item in self._items:
            if item.spread:
                replicas[item.model].append(item)
        for same in replicas.values():
            for device in self._devices if len(same) > 1 else ():
                self._model.add_at_most_one(
                    [self._places[item, device] for item in same if (item, device) in self._places]
                )

    def _break_symmetry(self) -> None:
        """Devices of one kind are filled in order."""
        for first, second in zip(self._devices, self._devices[1:], strict=False):
            if (first.group, first.memory_mib, first.compute) == (second.group, second.memory_mib, second.compute):
                self._model.add_implication(self._used[second], self._used[first])
        if len({device.group for device in self._devices}) > 1 or self._best.left_out:
            return
        for item, device in zip(self._never_together(), self._devices, strict=False):
            self._model.add(self._places[item, device] == 1)

    def _never_together(self) -> list[Item]:
        """Items of which no two fit on one device, large ones first: each may as well have the device of its number."""
        device, found = self._devices[0], list[Item]()
        for item in sorted(self._items, key=lambda item: (-item.memory_mib - item.compute, item.name)):
            if not any(self._fit_together(item, other, device) for other in found):
                found.append(item)
        return found

    def _fit_together(self, item: Item, other: Item, device: Device) -> bool:
        for pair in ((item, other), (other, item)):
            load = Load(device=device, terms=self._terms)
            for one in pair:
                spot = load.place(one)
                if spot is None:
                    break
                load.add(spot)
            else:
                return True
        return False

    def _hint(self, found: Assignment) -> None:
        self._model.clear_hints()
        there = {(spot.item, spot.device) for spot in found.spots}
        for key, place in self._places.items():
            self._model.add_hint(place, key in there)

    # ---------------------------------------------------------------- the goals

    def place_by_priority(self) -> bool:
        """As many as possible of the highest priority, then of the next; whether that is proven."""
        proven = True
        for level in sorted({item.priority for item in self._items}, reverse=True):
            count = sum(self._placed[item] for item in self._items if item.priority == level)
            self._model.maximize(count)
            proven = self._search(_SEARCH) and proven
            reached = sum(spot.item.priority == level for spot in self._best.spots)
            self._model.add(count >= reached)
        return proven

    def fewest_devices(self, *, at_least: int) -> bool:
        """Use as few devices as possible; whether that is proven."""
        count = sum(self._used.values())
        self._model.add(count >= at_least)
        self._model.minimize(count)
        return self._search(_SEARCH)

    def balance(self) -> None:
        """With that many devices: memory and compute of each filled alike, so heavy ones of both kinds share."""
        model, terms, apart = self._model, self._terms, []
        model.add(sum(self._used.values()) <= self._best.devices)
        for device in self._devices:
            here = [(item, self._places[item, device]) for item in self._items if (item, device) in self._places]
            difference = sum(
                round(_PER_MILLE * (terms.need_mib(item) / device.memory_mib - item.compute / device.compute)) * place
                for item, place in here
            )
            gap = model.new_int_var(0, 2 * _PER_MILLE, f"gap of {device.name}")
            model.add_abs_equality(gap, difference)
            apart.append(gap)
        model.minimize(sum(apart))
        self._search(_BALANCE)

    def _search(self, work: float) -> bool:
        """Search; take the answer over where there is one. Whether nothing better exists."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = self._time_limit_s
        solver.parameters.max_deterministic_time = work
        status = solver.solve(self._model)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return False
        self._best = self._read(solver)
        self._hint(self._best)
        return bool(status == self._cp.OPTIMAL)

    def _read(self, solver: cp_model.CpSolver) -> Assignment:
        here: dict[Device, list[Item]] = defaultdict(list)
        for (item, device), place in self._places.items():
            if solver.boolean_value(place):
                here[device].append(item)
        spots = tuple(spot for device, items in here.items() for spot in self._spots(device, items))
        there = {spot.item for spot in spots}
        left_out = tuple(item for item in self._items if item not in there)
        return Assignment(spots=spots, left_out=left_out, proven=False, solver=EXACT)

    def _spots(self, device: Device, items: list[Item]) -> list[Spot]:
        if self._terms.isolation != "mig":
            return [Spot(item=item, device=device) for item in items]
        pairs = [(item, piece) for item in items if (piece := piece_for(item, device, self._terms)) is not None]
        pairs.sort(key=lambda pair: (-pair[1].memory_slices, -pair[1].compute_slices, pair[0].name))
        starts = lay_out([piece for _, piece in pairs])
        assert starts is not None
        return [
            Spot(item=item, device=device, profile=piece.profile, start=start)
            for (item, piece), start in zip(pairs, starts, strict=True)
        ]

    def assignment(self, *, proven: bool) -> Assignment:
        """The best that was found."""
        best = self._best
        return Assignment(spots=best.spots, left_out=best.left_out, proven=proven, solver=EXACT)


def _worth_a_look(items: Sequence[Item], devices: Sequence[Device], start: Assignment) -> list[Device]:
    """Of one kind, no more devices than a known assignment uses; all where it left something out."""
    groups = {device.group for device in devices}
    most = len(items) if start.left_out or len(groups) > 1 else start.devices
    counts: dict[str, int] = defaultdict(int)
    found = []
    for device in devices:
        counts[device.group] += 1
        if counts[device.group] <= most:
            found.append(device)
    return found

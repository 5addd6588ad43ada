"""Which partitions fit on one GPU together, and how few GPUs hold a set of them. Exact, without any library.

Only the number of partitions of each kind counts, so sets of items with the same needs are one state of the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from include.sizing.packing_items import Device, Item, Terms
from include.sizing.packing_mig import COMPUTE_SLICES, Piece, piece_for, pieces_of

# Beyond this many states the search is left to others; some tens of replicas stay far below.
_MOST_STATES = 20_000

Counts = tuple[int, ...]


def fewest_cut_devices(items: Sequence[Item], device: Device, terms: Terms) -> int | None:
    """Fewest equal devices whose partitions hold all items, replicas of a model side by side or not.

    Returns:
        None where there are too many kinds and items to try all.
    """
    wanted = Counter(piece_for(item, device, terms) for item in items)
    if None in wanted:
        return None
    kinds = tuple(piece for piece in reversed(pieces_of(device)) if wanted[piece])
    counts = tuple(wanted[piece] for piece in kinds)
    states = 1
    for count in counts:
        states *= count + 1
    return _fewest(counts, largest_sets(kinds)) if states <= _MOST_STATES else None


@lru_cache(maxsize=256)
def largest_sets(kinds: tuple[Piece, ...]) -> tuple[Counts, ...]:
    """All largest sets of these partitions that one device holds, as counts by kind."""
    found = set(_grow(kinds, (0,) * len(kinds)))
    return tuple(sorted(a for a in found if not any(a != b and _within(a, b) for b in found)))


def _grow(kinds: tuple[Piece, ...], counts: Counts) -> Iterator[Counts]:
    yield counts
    last = max((kind for kind, count in enumerate(counts) if count), default=0)
    for kind in range(last, len(kinds)):
        more = tuple(count + (number == kind) for number, count in enumerate(counts))
        if lay_out([piece for piece, count in zip(kinds, more, strict=True) for _ in range(count)]) is not None:
            yield from _grow(kinds, more)


def lay_out(pieces: Sequence[Piece]) -> tuple[int, ...] | None:
    """First memory slice of each partition on one device, in the order given; None where they do not fit together."""
    if sum(piece.compute_slices for piece in pieces) > COMPUTE_SLICES:
        return None
    return _lay_out(tuple(pieces), frozenset())


def _lay_out(pieces: tuple[Piece, ...], taken: frozenset[int]) -> tuple[int, ...] | None:
    if not pieces:
        return ()
    first, rest = pieces[0], pieces[1:]
    for start in first.starts:
        cells = frozenset(range(start, start + first.memory_slices))
        if cells & taken:
            continue
        others = _lay_out(rest, taken | cells)
        if others is not None:
            return (start, *others)
    return None


def _within(small: Counts, large: Counts) -> bool:
    return all(a <= b for a, b in zip(small, large, strict=True))


def _fewest(counts: Counts, patterns: tuple[Counts, ...]) -> int:
    @cache
    def search(left: Counts) -> int:
        first = next((kind for kind, count in enumerate(left) if count), None)
        if first is None:
            return 0
        # Some device holds the largest that is left; filling it with all that fits never costs another device.
        rests = {
            tuple(max(0, have - take) for have, take in zip(left, pattern, strict=True))
            for pattern in patterns
            if pattern[first]
        }
        return 1 + min(search(rest) for rest in rests)

    return search(counts)

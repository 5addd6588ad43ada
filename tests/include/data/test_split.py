"""Splits follow from content alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from include.config.data_section import Split
from include.data.split import assign_splits, row_hashes

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
        st.one_of(st.none(), st.text(max_size=5)),
        st.lists(st.integers(0, 255), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=40,
)


def table_of(rows) -> pa.Table:
    numbers, texts, pixels = zip(*rows, strict=True)
    return pa.table(
        {
            "n": pa.array(numbers, pa.float64()),
            "t": pa.array(texts, pa.string()),
            "p": pa.array(pixels, pa.list_(pa.uint8())),
        }
    )


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 2**16))
def test_hashes_depend_neither_on_row_order_nor_on_column_order(rows, seed) -> None:
    order = np.random.default_rng(seed).permutation(len(rows))
    plain = row_hashes(table_of(rows), ["n", "t", "p"])
    shuffled = row_hashes(table_of([rows[i] for i in order]), ["p", "n", "t"])
    assert plain[order].tolist() == shuffled.tolist()


@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_repeated_rows_share_a_split_even_across_chunks(rows) -> None:
    table = pa.concat_tables([table_of(rows), table_of(rows)])
    splits = assign_splits(row_hashes(table, ["n", "t", "p"]), Split())
    assert splits[: len(rows)].tolist() == splits[len(rows) :].tolist()


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, position=st.integers(0, 39), number=st.floats(allow_nan=False))
def test_a_changed_cell_changes_the_hash_of_its_row_only(rows, position, number) -> None:
    position %= len(rows)
    changed = list(rows)
    changed[position] = (number, *rows[position][1:])
    before, after = (row_hashes(table_of(r), ["n", "t", "p"]) for r in (rows, changed))
    differs = [i for i in range(len(rows)) if before[i] != after[i]]
    same = rows[position][0] is not None and rows[position][0] == number
    assert differs == ([] if same else [position])


def test_hashes_are_the_same_on_every_machine() -> None:
    # Written down once: a change here moves rows between the splits of every dataset, so FORMAT_VERSION must grow.
    hashes = row_hashes(table_of([(1.5, "a", [1, 2, 3]), (None, None, [0, 0, 0])]), ["n", "t", "p"])
    assert hashes.tolist() == [1345480450307530693, 17649822181773299994]


def test_the_shares_are_met_on_many_rows() -> None:
    hashes = row_hashes(pa.table({"n": pa.array(np.arange(20_000.0))}), ["n"])
    counts = Counter(assign_splits(hashes, Split(validation=0.1, test=0.3)).tolist())
    assert abs(counts["validation"] / 20_000 - 0.1) < 0.01
    assert abs(counts["test"] / 20_000 - 0.3) < 0.01


def test_a_heavy_group_goes_to_training_whatever_its_hash() -> None:
    numbers = np.concatenate([np.arange(900.0), np.full(100, 0.5)])
    for shift in range(30):  # some of these groups would land in a held-out split by their hash alone
        hashes = row_hashes(pa.table({"n": pa.array(numbers + shift * 1000)}), ["n"])
        assert set(assign_splits(hashes, Split())[900:].tolist()) == {"train"}

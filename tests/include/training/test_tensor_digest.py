from __future__ import annotations

import pytest
import torch

from include.training.tensor_digest import content_digest

LONG = 3 * 2**16 + 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool])
@pytest.mark.parametrize("size", [1, 7, 100, LONG])
def test_any_single_element_shows(dtype: torch.dtype, size: int) -> None:
    value = torch.zeros(size, dtype=dtype)
    before = content_digest(value)
    assert content_digest(value.clone()) == before
    for place in {0, size // 3, size // 2, size - 1}:
        changed = value.clone()
        changed[place] = 1
        assert content_digest(changed) != before


def test_changes_that_cancel_out_in_a_plain_sum_show() -> None:
    value = torch.arange(float(LONG))
    seen = {content_digest(value)}
    swapped, moved, flipped = value.clone(), value.roll(2), -value
    swapped[[0, 2]] = swapped[[2, 0]]
    far = value.clone()
    far[[1, 2**16 * 2 + 1]] = far[[2**16 * 2 + 1, 1]]
    for other in (swapped, moved, flipped, far, value.reshape(1, -1), value.to(torch.float64)):
        assert content_digest(other) not in seen
        seen.add(content_digest(other))


def test_views_are_read_as_what_they_show() -> None:
    base = torch.arange(41, dtype=torch.int8)
    assert content_digest(base[3:40]) == content_digest(base[3:40].clone())
    square = torch.arange(64.0).reshape(8, 8)
    assert content_digest(square.T) == content_digest(square.T.contiguous())
    assert content_digest(square[:, 1:3]) == content_digest(square[:, 1:3].contiguous())


def test_no_generator_is_touched_and_the_empty_tensor_has_a_digest() -> None:
    before = torch.get_rng_state()
    assert content_digest(torch.empty(0, 4)) != content_digest(torch.empty(4, 0))
    content_digest(torch.ones(10))
    assert torch.equal(torch.get_rng_state(), before)

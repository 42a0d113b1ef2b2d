"""The variance of an array that is larger than memory, in memory that is bounded.

::

    items ──> parts      all that some of the results need: its mean
    part  ──> blocks     in the order of memory: squares are added to the results

The axes are in the order of memory, the slowest one first, so that a block is a few runs of bytes,
whatever the order of the array. Each item is read twice, once for the mean; the results lie in
ordinary memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def variance(items: Any, reduced: tuple[int, ...], ddof: Any, length: int) -> Any:
    """The variance over the axes `reduced`, each of which stays with one item, by copies of about
    so many bytes."""
    of = np.zeros(0, items.dtype.newbyteorder("=")).real.dtype
    of = of if of.kind == "f" else np.dtype(float)
    count = max(length // max(of.itemsize, items.itemsize), 1)
    number = math.prod(items.shape[axis] for axis in reduced)
    if ddof >= number:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
    found = np.empty([1 if at in reduced else size for at, size in enumerate(items.shape)], of)

    def of_result(place: tuple[slice, ...]) -> tuple[slice, ...]:
        return tuple(slice(None) if at in reduced else each for at, each in enumerate(place))

    for place in _blocks(found.shape, count):
        part = items[of_result(place)]
        mean = part.mean(reduced, keepdims=True)
        # Many sums of blocks, one after the other: more digits than a float of four bytes has.
        total = np.zeros(mean.shape, np.result_type(of, float))
        for block in _blocks(part.shape, count):
            at = of_result(block)
            apart = part[block] - mean[at]
            if apart.dtype.kind == "c":
                apart = np.square(apart.real) + np.square(apart.imag)
            else:
                np.square(apart, out=apart)
            total[at] += apart.sum(reduced, keepdims=True)
        found[place] = np.true_divide(total, max(number - ddof, 0), out=total)
    return found


def _blocks(sizes: Sequence[int], count: int) -> Iterator[tuple[slice, ...]]:
    """Parts of at most so many items that are all of an array with these axes, the slowest one
    first; each is adjacent in memory if the array is."""
    inner, axis = 1, len(sizes)
    while axis and inner * sizes[axis - 1] <= count:
        axis -= 1
        inner *= sizes[axis]
    whole = (slice(None),) * (len(sizes) - axis)
    if not axis:
        yield whole
        return
    axis -= 1
    # As long as each other: a short one may be a few bytes of each page.
    parts = math.ceil(sizes[axis] / max(count // inner, 1))
    step = math.ceil(sizes[axis] / parts)
    for outer in np.ndindex(*sizes[:axis]):
        before = tuple(slice(each, each + 1) for each in outer)
        for start in range(0, sizes[axis], step):
            yield (*before, slice(start, start + step), *whole)

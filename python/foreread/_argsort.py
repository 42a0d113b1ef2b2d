"""The order of an array that is larger than memory, in memory that is bounded.

::

    sample ──> bounds      a < b < c < ..
    array  ──> buckets     | < a | = a | a..b | = b | b..c | ..    pairs: an item, and where it is
    bucket ──> its order   in memory; what equals a bound is in order already

Each pass reads and writes one block after the other. The order is stable, so it is one of every
kind of numpy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Divisor of the budget for a block and for a bucket, with what numpy needs beside them. Lower
#: costs memory: eight times a block, and a bucket is a few blocks. Higher costs calls.
BLOCKS = 8

#: The fewest items of a block. Lower: a small budget has a call for few items. Higher costs
#: memory beside the budget: 8 bytes and an item, several times.
BLOCK_ITEMS_MIN = 1 << 14

#: Items of the sample for each block of the array. Lower: buckets differ more in length, and the
#: longest takes more memory. Higher: more items are read at random.
SAMPLED = 16

Made = np.ndarray[Any, Any]


def argsort(
    items: Made, budget: int, empty: Callable[[int, Any], Made], order: Made | None = None
) -> Made:
    """The indices that sort `items`, which have one axis. `empty` makes arrays for them."""
    count = items.size
    block = max(budget // BLOCKS // (items.itemsize + 8), BLOCK_ITEMS_MIN)
    starts = range(0, count, block)
    at = np.random.default_rng(0).integers(0, count, SAMPLED * len(starts))
    sample = np.sort(items[np.sort(at)])
    bounds = np.unique(sample[SAMPLED - 1 :: SAMPLED])
    buckets = 2 * len(bounds) + 1

    def buckets_of(part: Made) -> Made:
        # Two for each bound: of what is below it, and of what equals it.
        below = np.searchsorted(bounds, part, "left")
        return below + np.searchsorted(bounds, part, "right")

    counts = np.zeros(buckets, np.intp)
    for start in starts:
        part = np.asarray(items[start : start + block])
        counts += np.bincount(buckets_of(part), minlength=buckets)
    ends = np.cumsum(counts)
    sorted_items = empty(count, items.dtype)
    if order is None:
        order = empty(count, np.intp)
    places = ends - counts
    for start in starts:
        part = np.asarray(items[start : start + block])
        of = buckets_of(part)
        within = np.argsort(of, kind="stable")
        lengths = np.bincount(of, minlength=buckets)
        part, within_end = part[within], np.cumsum(lengths)
        within += start
        for bucket in np.flatnonzero(lengths):
            length, end = lengths[bucket], within_end[bucket]
            place = slice(places[bucket], places[bucket] + length)
            sorted_items[place] = part[end - length : end]
            order[place] = within[end - length : end]
        places += lengths
    for even in range(0, buckets, 2):
        place = slice(ends[even] - counts[even], ends[even])
        within = np.argsort(np.asarray(sorted_items[place]), kind="stable")
        order[place] = order[place][within]
    return order

"""Rows of arrays of twice the memory: `foreread.empty`, numpy.memmap on the same disk, and an
ordinary array that the kernel swaps.

::

    foreread    [array, a budget of half of it] ── spill file      cgroup: budget + 1/20 + process
    memmap      [array over a file]             ── that file       cgroup: budget + process
    swap        [array]                         ── swap file       cgroup: budget + process

*process* is what Python and numpy take without an array. Needs root, for memory cgroups and the
swap file. The arrays are filled before the time begins, and the results are checked.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foreread.bench.row import Figures, Place, Row, figures

#: Bytes of the array and of the memory for it.
SIZE, BUDGET = 512 << 20, 256 << 20

#: What Python, numpy and the module take beside.
PROCESS = 64 << 20

#: Rows gathered at random: how many, and how many at a time.
GATHERED, TOGETHER = 8192, 256

CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def cgroup(limit: int) -> Iterator[list[str]]:
    """A memory cgroup, version 1 or 2: how a command begins that runs in it."""
    parent, name = CGROUPS / "memory", "memory.limit_in_bytes"
    if not (parent / name).exists():
        parent, name = CGROUPS, "memory.max"
        (parent / "cgroup.subtree_control").write_text("+memory")
    group = parent / f"foreread-bench-{os.getpid()}"
    group.mkdir(exist_ok=True)
    try:
        (group / name).write_text(str(limit))
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    finally:
        # Its last process may not be gone yet.
        for _ in range(1000):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.01)


@contextlib.contextmanager
def _swap(directory: Path) -> Iterator[None]:
    """A swap file."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="swap-") as file:
        os.posix_fallocate(file.fileno(), 0, SIZE + BUDGET)
        for command in ("mkswap", "swapon"):
            subprocess.run([command, file.name], check=True, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            subprocess.run(["swapoff", file.name], check=True)


@contextlib.contextmanager
def around(client: str, place: Place) -> Iterator[list[str]]:
    """The memory that a client has."""
    limit = BUDGET + PROCESS + (BUDGET // 20 if client == "foreread" else 0)
    with contextlib.ExitStack() as stack:
        if client == "swap":
            stack.enter_context(_swap(place.directory))
        yield stack.enter_context(cgroup(limit))


@contextlib.contextmanager
def _array(client: str, place: Place) -> Iterator[Any]:
    """An array of float64 and of SIZE bytes."""
    import numpy as np

    count = SIZE // 8
    if client == "foreread":
        import foreread

        yield foreread.empty(count, np.float64, budget=BUDGET, spill=place.directory)
    elif client == "swap":
        yield np.empty(count)
    else:
        with tempfile.NamedTemporaryFile(dir=place.directory, prefix="memmap-") as file:
            yield np.memmap(file.name, np.float64, "w+", shape=(count,))


#: Values that are made at a time, so that what makes them needs little memory.
_MADE = 1 << 19


def _values(seed: int, count: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).random(count)


def _fill(array: Any) -> float:
    """Fills it with random values, the same each time. Returns their sum."""
    total = 0.0
    for at in range(0, array.size, _MADE):
        values = _values(at, min(_MADE, array.size - at))
        array[at : at + _MADE] = values
        total += float(values.sum())
    return total


#: MADV_WILLNEED of Linux, for what the module mmap maps.
_WILLNEED = 3


@dataclass(frozen=True)
class Sort:
    """Sorts the array."""

    def work(self, array: Any) -> None:
        array.sort()

    def check(self, array: Any, total: float) -> int:
        some = array[::4096]
        if not bool((some[1:] >= some[:-1]).all()):
            raise RuntimeError("it is not sorted")
        return SIZE


@dataclass(frozen=True)
class Cumsum:
    """Adds up the array in place."""

    def work(self, array: Any) -> None:
        import numpy as np

        np.cumsum(array, out=array)

    def check(self, array: Any, total: float) -> int:
        if abs(float(array[-1]) - total) > 1:
            raise RuntimeError("the sum is wrong")
        return SIZE


@dataclass
class Gather:
    """Copies rows at random, so many at a time."""

    #: Bytes of a row.
    length: int
    #: Whether the memory is told a batch ahead, where it can be told.
    told: bool

    def __post_init__(self) -> None:
        #: Index of a row, and its first value as it was found.
        self.found: list[tuple[int, float]] = []

    def work(self, array: Any) -> None:
        import numpy as np

        rows = array.reshape(-1, self.length // 8)
        random = np.random.default_rng(9)
        batches = [random.integers(0, len(rows), TOGETHER) for _ in range(GATHERED // TOGETHER)]
        if self.told:
            self._tell(array, batches[0])
        for nth, batch in enumerate(batches):
            if self.told and nth + 1 < len(batches):
                self._tell(array, batches[nth + 1])
            self.found.append((int(batch[0]), float(rows[batch][0, 0])))

    def _tell(self, array: Any, batch: Any) -> None:
        region = getattr(array, "region", None)
        for row in map(int, batch):
            at = row * self.length
            if region is not None:
                region.advise(at, at + self.length, "willneed")
            else:
                array._mmap.madvise(_WILLNEED, at, self.length)

    def check(self, array: Any, total: float) -> int:
        for row, value in self.found:
            at = row * (self.length // 8)
            first = at // _MADE * _MADE
            if value != _values(first, min(_MADE, array.size - first))[at - first]:
                raise RuntimeError("a value is wrong")
        return GATHERED * self.length


def _run(client: str, place: Place, made: Callable[[bool], Any]) -> Figures:
    work = made(client in ("foreread", "memmap-told"))
    with _array(client, place) as array:
        total = _fill(array)
        if isinstance(work, Gather) and hasattr(array, "flush"):
            # What the kernel still has to write is no part of reads at random.
            array.flush()
        start = time.monotonic()
        work.work(array)
        took = time.monotonic() - start
        done = work.check(array, total)
        return figures(took, GATHERED if isinstance(work, Gather) else 1, done)


def _row(text: str, unit: str, made: Callable[[bool], Any], told: bool = False) -> Row:
    clients = ("foreread", "memmap", *(("memmap-told",) if told else ()), "swap")
    return Row(text, unit, clients, partial(_run, made=made), around=around, needs=("numpy",))


ROWS: dict[str, Row] = {
    "array-sort": _row("512 MiB of float64 sorted, in 256 MiB", "s", lambda _: Sort()),
    "array-cumsum": _row("their cumulative sum, in place", "MB/s", lambda _: Cumsum()),
    "array-gather": _row(
        "rows of 4 KiB at random, 256 at a time", "/s", lambda _: Gather(4096, False)
    ),
    "array-rows": _row("rows of 16 KiB at random", "/s", lambda _: Gather(16 << 10, False)),
    "array-told": _row(
        "the same, told a batch ahead", "/s", lambda told: Gather(16 << 10, told), True
    ),
    "array-told-4k": _row(
        "rows of 4 KiB, told a batch ahead", "/s", lambda told: Gather(4096, told), True
    ),
}

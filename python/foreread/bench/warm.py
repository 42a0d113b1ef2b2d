"""Reads of what is in memory: through another process's engine, and through the process's own.

Both alternate in one process, so that what else the machine does meets both. A figure is the
median of the turns, and so is the ratio.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import foreread

#: Bytes of the object, which fit into the budget.
SIZE, BUDGET = 64 << 20, "512MiB"

#: Reads of a turn of the rows with small ones.
READS = 3000

TURNS = 9

MIB = 1 << 20


def _small(file: Any) -> float:
    places = random.Random(1)
    at = [places.randrange(SIZE - 4096) for _ in range(READS)]
    began = time.perf_counter()
    for offset in at:
        file.read_at(offset, 4096)
    return READS / (time.perf_counter() - began)


def _together(file: Any) -> float:
    places = random.Random(2)
    ranges = [(places.randrange(SIZE - 4096), 4096) for _ in range(READS)]
    began = time.perf_counter()
    for first in range(0, READS, 100):
        file.read_ranges(ranges[first : first + 100])
    return READS / (time.perf_counter() - began)


def _forward(file: Any) -> float:
    began = time.perf_counter()
    for offset in range(0, SIZE, MIB):
        file.read_at(offset, MIB)
    return SIZE / (time.perf_counter() - began) / 1e6


def _into(file: Any) -> float:
    buffer = bytearray(MIB)
    began = time.perf_counter()
    for offset in range(0, SIZE, MIB):
        file.read_into_at(offset, buffer)
    return SIZE / (time.perf_counter() - began) / 1e6


ROWS: dict[str, tuple[Callable[[Any], float], str]] = {
    "4 KiB at random": (_small, "reads/s"),
    "100 of these together": (_together, "reads/s"),
    "1 MiB forward": (_forward, "MB/s"),
    "1 MiB forward, into a buffer": (_into, "MB/s"),
}


def _turns(pipe: Any, url: str, options: dict[str, Any]) -> None:
    shared = foreread.open(url, memory=BUDGET, **options)
    own = foreread.open(url, share=False, **options)
    for file in (shared, own):
        file.read_at(0, SIZE)
    if foreread.stats()["joins"] != 1:
        raise RuntimeError("the process has not joined another one")
    for _ in range(TURNS):
        pipe.send([(row(own), row(shared)) for row, _ in ROWS.values()])
    pipe.close()


def warm(url: str, options: dict[str, Any]) -> None:
    """Prints the rows for the object `url` of `SIZE` bytes, which this process serves."""
    foreread.open(url, memory=BUDGET, **options).read_at(0, SIZE)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(False)
    other = spawn.Process(target=_turns, args=(theirs, url, options))
    other.start()
    theirs.close()
    turns = [ours.recv() for _ in range(TURNS)]
    other.join()
    for nth, (name, (_, unit)) in enumerate(ROWS.items()):
        own, shared = ([turn[nth][which] for turn in turns] for which in (0, 1))
        ratio = statistics.median(turn[nth][1] / turn[nth][0] for turn in turns)
        figures = f"{statistics.median(own):9.0f} {statistics.median(shared):9.0f} {unit}"
        print(f"{name:28} own, shared: {figures}, ratio {ratio:.2f}", flush=True)

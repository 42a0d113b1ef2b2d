"""Rows of reads by threads that wait: ranges of one large object, small files, and listings."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from foreread.bench.clients import WAYS
from foreread.bench.row import Asks, Figures, Place, Row, figures
from foreread.bench.store import objects

#: Bytes of the large object. Objects are synthetic: their size costs nothing.
SIZE = 2 << 30

#: Files of the row `files`, and bytes of each.
FILES, FILE_BYTES = 2000, 100 << 10

#: Keys of the rows `ls` and `find`, and directories of the latter.
KEYS, DIRECTORIES = 100_000, 100

#: Connections of the bare client that says what can be had of the storage in order, and bytes of
#: each of its requests.
CONNECTIONS, PART = 16, 8 << 20

MIB = 1 << 20

#: (offset, length) of a thread's reads, in order.
Reads = Iterator[tuple[int, int]]


def _forward() -> Reads:
    return ((at, MIB) for at in range(0, SIZE, MIB))


def _backward() -> Reads:
    return ((at, MIB) for at in range(SIZE - MIB, -1, -MIB))


def _strided() -> Reads:
    return ((at, 64 << 10) for at in range(0, SIZE, MIB))


def _interleaved(streams: int) -> Reads:
    each = SIZE // streams
    return (
        (stream * each + at, 128 << 10)
        for at in range(0, each, 128 << 10)
        for stream in range(streams)
    )


def _random(length: int, seed: int) -> Reads:
    chosen = random.Random(seed)
    while True:
        yield chosen.randrange(SIZE // length) * length, length


def _parts(thread: int) -> Reads:
    return ((at, PART) for at in range(thread * PART, SIZE, CONNECTIONS * PART))


def big(store: Asks, place: Place) -> None:
    """Makes the large object."""
    store.ask("objects", {"key": "big", "size": SIZE, "generation": 1})


def keys(row: str) -> list[str]:
    """The keys that a row needs."""
    if row == "files":
        return [f"files/{nth:05}" for nth in range(FILES)]
    if row == "ls":
        return [f"ls/{nth:06}" for nth in range(KEYS)]
    each = KEYS // DIRECTORIES
    return [f"find/d{nth // each:03}/{nth % each:04}" for nth in range(KEYS)]


def _keyed(row: str) -> Callable[[Asks, Place], None]:
    def prepare(store: Asks, place: Place) -> None:
        for part in objects(keys(row), FILE_BYTES):
            store.ask("objects", part)

    return prepare


def together(work: list[Iterator[Callable[[], int]]], seconds: float) -> Figures:
    """Runs a list of jobs in a thread each, until they end or the time is over. A job says how
    many bytes it read."""
    done: list[tuple[int, int] | BaseException] = [(0, 0)] * len(work)
    start = time.monotonic()

    def read(thread: int) -> None:
        count = total = 0
        try:
            for job in work[thread]:
                total += job()
                count += 1
                if time.monotonic() - start > seconds:
                    break
            done[thread] = (count, total)
        except BaseException as error:
            done[thread] = error

    workers = [threading.Thread(target=read, args=(thread,)) for thread in range(len(work))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.monotonic() - start
    counts: list[tuple[int, int]] = []
    for thread in done:
        if isinstance(thread, BaseException):
            raise thread
        counts.append(thread)
    return figures(took, sum(count for count, _ in counts), sum(total for _, total in counts))


def _ranges(threads: int, reads: Callable[[int], Reads], in_order: bool) -> Callable[..., Figures]:
    def run(name: str, place: Place) -> Figures:
        parts = name == "bare" and in_order
        client = WAYS[name](place, CONNECTIONS if parts else threads)
        file = client.open("big")
        work: list[Iterator[Callable[[], int]]] = [
            (
                partial(client.read_at, file, at, length)
                for at, length in (_parts(seed) if parts else reads(seed))
            )
            for seed in range(client.threads)
        ]
        return together(work, place.seconds)

    return run


def _files(name: str, place: Place) -> Figures:
    client = WAYS[name](place, 1)
    jobs = (partial(client.whole, key) for key in client.list("files"))
    return together([jobs], place.seconds)


def _listed(name: str, place: Place, row: str) -> Figures:
    client = WAYS[name](place, 1)
    start = time.monotonic()
    entries = len(client.list("ls")) if row == "ls" else client.find("find")
    took = time.monotonic() - start
    if entries != KEYS:
        raise RuntimeError(f"{entries} entries were listed")
    return figures(took, entries, 0)


PEERS = ("s3fs", "pyarrow", "obstore")


def _row(
    text: str, unit: str, threads: int, reads: Callable[[int], Reads], in_order: bool = True
) -> Row:
    clients = ("foreread", "bare", *PEERS)
    return Row(text, unit, clients, _ranges(threads, reads, in_order), big, needs=("fsspec",))


#: Of `forward` to `streams-16`, the bare client reads the object in order by 16 connections: the
#: ceiling.
ROWS: dict[str, Row] = {
    "forward": _row("2 GiB in reads of 1 MiB", "MB/s", 1, lambda _: _forward()),
    "backward": _row("2 GiB from its end, 1 MiB a read", "MB/s", 1, lambda _: _backward()),
    "strided": _row("64 KiB of every MiB", "/s", 1, lambda _: _strided(), False),
    "streams-2": _row("two streams in turn, 128 KiB", "MB/s", 1, lambda _: _interleaved(2)),
    "streams-16": _row("sixteen streams in turn, 128 KiB", "MB/s", 1, lambda _: _interleaved(16)),
    "random-4k": _row(
        "random 4 KiB, 16 threads", "/s", 16, lambda seed: _random(4096, seed), False
    ),
    "random-128k": _row(
        "random 128 KiB, 16 threads", "/s", 16, lambda seed: _random(128 << 10, seed), False
    ),
    "files": Row(
        "files of 100 KiB in the order of their names",
        "/s",
        ("foreread", *PEERS),
        _files,
        _keyed("files"),
        needs=("fsspec",),
    ),
    "ls": Row(
        "100,000 entries of one directory",
        "/s",
        ("foreread", *PEERS),
        partial(_listed, row="ls"),
        _keyed("ls"),
        needs=("fsspec",),
    ),
    "find": Row(
        "100,000 files in 100 directories",
        "/s",
        ("foreread", *PEERS),
        partial(_listed, row="find"),
        _keyed("find"),
        needs=("fsspec",),
    ),
}

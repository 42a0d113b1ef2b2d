"""How long readers wait when the process that serves an engine is killed.

Processes that each have an open file are told to read one block each, at the moment at which the
one that serves is killed. A takeover is over when the last of them has its bytes: by then another
process serves, all others have joined it, and the block was fetched anew.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import tempfile
import time
from multiprocessing.connection import wait
from typing import Any

import foreread

#: Bytes of the object, and of a read.
SIZE, BLOCK = 1 << 30, 4096


def _read(pipe: Any, url: str, options: dict[str, Any]) -> None:
    """Reads a block each time it is told to; says when it has come, and whether it serves."""
    file = foreread.open(url, **options)
    while True:
        pipe.send((time.monotonic(), foreread.stats()["serves"]))
        try:
            offset = pipe.recv()
        except EOFError:
            return
        file.read_at(offset, BLOCK)


class _Reader:
    """A process that reads."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=_read, args=(theirs, url, options), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self) -> tuple[float, int]:
        answer: tuple[float, int] = self.pipe.recv()
        return answer


def _memory(pid: int) -> int:
    """Bytes of memory that a process has, but for files: its own, and what it shares."""
    with open(f"/proc/{pid}/status") as status:
        kinds = ("RssAnon:", "RssShmem:")
        return sum(int(line.split()[1]) << 10 for line in status if line.startswith(kinds))


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def takeover(url: str, options: dict[str, Any], clients: int, times: int) -> None:
    """Prints how long `times` takeovers took, with so many clients, and what a client costs."""
    # Processes of this run meet each other alone.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        # One after the other: the first serves, the others join at once.
        readers = [_Reader(url, options)]
        serving = readers[0]
        serving.answer()
        alone = _memory(serving.process.pid or 0)
        readers += [_Reader(url, options) for _ in range(clients)]
        roles = [reader.answer()[1] for reader in readers[1:]]
        if any(roles):
            raise RuntimeError("a client has not joined")
        pid = serving.process.pid or 0
        server = f"{_threads(pid)} threads, {_descriptors(pid)} descriptors"
        each = statistics.median(_memory(reader.process.pid or 0) for reader in readers[1:])
        costs = (_memory(pid) - alone) / clients
        print(
            f"{clients} clients: the server has {server}, {costs / 1e3:.0f} KB a client;"
            f" a client has {each / 1e6:.1f} MB",
            flush=True,
        )
        places, took = random.Random(1), []
        for _ in range(times):
            offset = places.randrange(SIZE // BLOCK) * BLOCK
            rest = [reader for reader in readers if reader is not serving]
            serving.process.kill()
            began = time.monotonic()
            for reader in rest:
                reader.pipe.send(offset)
            last = began
            waiting: dict[Any, _Reader] = {reader.pipe: reader for reader in rest}
            while waiting:
                for pipe in wait(list(waiting)):
                    at, serves = waiting[pipe].answer()
                    last = max(last, at)
                    if serves:
                        successor = waiting[pipe]
                    del waiting[pipe]
            took.append(last - began)
            serving.process.join()
            serving = successor
            readers = [*rest, _Reader(url, options)]
            readers[-1].answer()
        took.sort()
        print(
            f"{clients} clients: {times} takeovers took {took[0] * 1e3:.0f} to"
            f" {took[-1] * 1e3:.0f} ms, median {statistics.median(took) * 1e3:.0f}",
            flush=True,
        )
        for reader in readers:
            reader.process.kill()
            reader.process.join()

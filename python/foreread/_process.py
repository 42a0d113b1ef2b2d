"""The budget of the process, its cache on disk, and what its engines have done."""

from __future__ import annotations

import os

from foreread import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def configure(
    *,
    memory: int | str | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
    cache_min_free: int | str | None = None,
    cache_encrypt: str | os.PathLike[str] | None = None,
    cache_bypass: bool | None = None,
    **unknown: object,
) -> int:
    """Sets the memory budget of the process, and the folder where content stays that was read.

    `memory` is in bytes or a text such as "2GiB" or "96M". All engines of the process share it:
    what is read, what is read ahead, listings. What does not fit any more goes at once. Default:
    256 MiB. Returns the budget in bytes; without an argument only that. A store needs 16 MiB at
    least, so a process that reads from many stores may use more.

    Of processes that share an engine, the largest budget that one of them has set holds; if none
    has set one, the default does. It ends with its process. `stats()["stores"]` shows what holds.

    `cache` is a folder on a local disk: what is read once is local from then on, across restarts.
    It is made if it is not there. Mounts and other processes of this user may share it. It takes
    `cache_size` bytes at most (64 GiB) and leaves `cache_min_free` free (1 GiB). `cache_encrypt`
    is a file of 32 bytes or more with which the content is encrypted. With `cache_bypass=False`
    the storage is never asked for what is there; else it is where the disk holds readers up. All
    of it holds for stores that are opened from now on, in this process and the children of a fork;
    an empty `cache` ends it for these. Of processes that share an engine, the one that serves
    decides. A process that is told of no folder takes the one that the environment variable
    `FOREREAD_CACHE` names, of `FOREREAD_CACHE_SIZE` bytes.

    Raises `ValueError` for less than 16 MiB or what is no size, `TypeError` for an unknown option
    and for one of a cache without `cache`. A folder that cannot be used is a `ValueError` of the
    first open.
    """
    if unknown:
        known = "memory, cache, cache_size, cache_min_free, cache_encrypt, cache_bypass"
        raise TypeError(f"unknown option {next(iter(unknown))!r}; known are {known}")
    of_cache = {
        "cache_size": cache_size,
        "cache_min_free": cache_min_free,
        "cache_encrypt": cache_encrypt,
        "cache_bypass": cache_bypass,
    }
    if cache is None or not os.fspath(cache):
        for name, value in of_cache.items():
            if value is not None:
                raise TypeError(f"{name} goes with cache, a folder")
    if cache is not None:
        size, free = (
            None if given is None else _native.size(given) for given in (cache_size, cache_min_free)
        )
        key = None if cache_encrypt is None else os.fspath(cache_encrypt)
        _native.set_cache(os.fspath(cache) or None, size, free, key, cache_bypass)
    return _native.set_memory(None if memory is None else _native.size(memory))


def _from_environment() -> None:
    """The cache that the environment names."""
    cache, size = (os.environ.get(name) for name in ("FOREREAD_CACHE", "FOREREAD_CACHE_SIZE"))
    if cache:
        _native.set_cache(cache, None if not size else _native.size(size))


_from_environment()


class trace:
    """Records the reads of this process, for `foreread replay`.

    ::

        with foreread.trace("r.trace") as recording:
            train()
        print(recording.reads, recording.lost)

    `path` is replaced. Each read that a program makes is a line: time in ns, file, reader, offset
    in bytes, length in bytes. It has the URLs of files, and no contents. Children of a fork are
    not recorded, nor are reads through another process's engine: a process that begins to record
    reads with engines of its own from then on. What other processes read through these is recorded
    with them.

    Raises `OSError` where the file cannot be written, `RuntimeError` if a recording is under way.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._running: _native.Trace | None = None
        #: How many reads were written.
        self.reads = 0
        #: How many came faster than they could be written.
        self.lost = 0

    def __enter__(self) -> trace:
        self._running = _native.Trace(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        running, self._running = self._running, None
        if running is not None:
            self.reads, self.lost = running.stop()


def stats() -> dict[str, Any]:
    """What the engines that this process reads through have done and hold now.

    The counters of all stores added up: `reads`, `read_bytes`, `hits`, `requests`,
    `fetched_bytes`, `lists`, `memory_charged_bytes` and so on, in operations and bytes. `"stores"`
    has a list of (store, counters) with those of each, and its latencies in microseconds.

    An engine that processes share counts for all of them. `"serves"` and `"joins"` are how many
    stores this process serves to others, and how many it reads through another process;
    `"clients"` is how many processes read through those engines besides the ones that have them.
    The counters of a store have its `"role"`: "serves", "joins" or "alone".
    """
    none, stores = _native.stats()
    total: dict[str, Any] = {}
    total.update((name, value) for name, value in none.items() if isinstance(value, int))
    for _, counters in stores:
        for name in total:
            total[name] += counters[name]
    total["clients"] = sum(counters["clients"] for _, counters in stores)
    for role in ("serves", "joins"):
        total[role] = sum(counters["role"] == role for _, counters in stores)
    total["memory_budget_bytes"] = _native.set_memory()
    total["stores"] = stores
    return total

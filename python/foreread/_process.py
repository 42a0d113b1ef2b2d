"""The budget of the process, and what its engines have done."""

from __future__ import annotations

from foreread import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def configure(*, memory: int | str | None = None, **unknown: object) -> int:
    """Sets the memory budget of the process, in bytes or as a text such as "2GiB" or "96M".

    All engines of the process share it: what is read, what is read ahead, listings. What does not
    fit any more goes at once. Default: 256 MiB. Returns the budget in bytes; without an argument
    only that. A store needs 16 MiB at least, so a process that reads from many stores may use more.

    Raises `ValueError` for less than 16 MiB or what is no size, `TypeError` for an unknown option.
    """
    if unknown:
        raise TypeError(f"unknown option {next(iter(unknown))!r}; known are memory")
    return _native.set_memory(None if memory is None else _native.size(memory))


def stats() -> dict[str, Any]:
    """What the engines of this process have done and hold now.

    The counters of all stores added up: `reads`, `read_bytes`, `hits`, `requests`,
    `fetched_bytes`, `lists`, `memory_charged_bytes` and so on, in operations and bytes. `"stores"`
    has a list of (store, counters) with those of each, and its latencies in microseconds. A child
    of a fork begins at zero.
    """
    none, stores = _native.stats()
    total: dict[str, Any] = {}
    total.update((name, value) for name, value in none.items() if isinstance(value, int))
    for _, counters in stores:
        for name in total:
            total[name] += counters[name]
    total["memory_budget_bytes"] = _native.set_memory()
    total["stores"] = stores
    return total

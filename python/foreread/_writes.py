"""Writes of a file system of fsspec, which its target does: waiting, and awaited.

Either way what is known of names is then forgotten, also where the write failed: some of it may
have been done.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

#: Methods that write, which the target file system has, and which argument says where.
WRITES = {
    "pipe_file": (0, "path"),
    "put_file": (1, "rpath"),
    "rm_file": (0, "path"),
    "rm": (0, "path"),
    "cp_file": (1, "path2"),
    "mkdir": (0, "path"),
    "makedirs": (0, "path"),
    "rmdir": (0, "path"),
    "touch": (0, "path"),
}


def add(kind: type) -> None:
    """Gives the file system `kind` the methods that write, and those that are awaited."""
    for name, (position, keyword) in WRITES.items():
        setattr(kind, name, _waiting(name, position, keyword))
        setattr(kind, f"_{name}", _awaited(name, position, keyword))


def _waiting(name: str, position: int, keyword: str) -> Callable[..., Any]:
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.target, name)(*args, **kwargs)
        finally:
            self._changed(args[position] if len(args) > position else kwargs.get(keyword, []))

    write.__name__ = name
    write.__doc__ = f"The target's own `{name}`; then what is known of names is forgotten."
    return write


def _awaited(name: str, position: int, keyword: str) -> Callable[..., Any]:
    async def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A target whose methods are to be awaited refuses those that wait.
        own = getattr(self.target, f"_{name}", None) if _is_awaited(self.target) else None
        if own is None:
            # All of it, so that a task that is cancelled forgets no name too early.
            return await asyncio.to_thread(getattr(self, name), *args, **kwargs)
        try:
            return await own(*args, **kwargs)
        finally:
            self._changed(args[position] if len(args) > position else kwargs.get(keyword, []))

    write.__name__ = f"_{name}"
    write.__doc__ = f"As `{name}`: the target's own if that is awaited, else in a thread."
    return write


def _is_awaited(target: Any) -> bool:
    return bool(getattr(target, "async_impl", False) and getattr(target, "asynchronous", False))


def telling(file: Any, told: Callable[[], None]) -> Any:
    """`file`, which calls `told` when it was closed."""
    file.__class__ = _telling(type(file))  # type: ignore[arg-type]
    file.told = told
    return file


@functools.cache
def _telling(kind: type) -> type:
    """Files of a kind that tell that they were closed.

    A class, as a method of the file alone would make it refer to itself: one that is let go would
    be written by Python's collector, on whichever thread that runs.
    """

    class Telling(kind):  # type: ignore[misc]
        __slots__ = ()

        def close(self) -> None:
            super().close()
            self.told()

    Telling.__name__ = kind.__name__
    return Telling

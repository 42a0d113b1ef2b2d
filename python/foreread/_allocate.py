"""Arrays of numpy that together are larger than memory."""

from __future__ import annotations

import builtins
import functools
import importlib
import os
from types import TracebackType
from typing import Any

import numpy as np

from foreread import _native
from foreread._array import entered, fill


class Allocator:
    """Memory for numpy's arrays: see `allocate`.

    It is entered as often as wanted, in one thread or several. An array keeps the memory that it
    lies in, whatever becomes of the allocator.
    """

    def __init__(self, native: _native.Allocator) -> None:
        self._native = native

    def __enter__(self) -> Allocator:
        # In a child of a fork this raises.
        self._native.stats()
        entered.set((*entered.get(), (self, self._native.set())))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        *outer, (last, before) = entered.get() or ((None, None),)
        if last is not self:
            raise RuntimeError(
                "allocators are left in the order in which they were entered, inner first"
            )
        self._native.set(before)
        entered.set(tuple(outer))
        refused = self._native.take_refused()
        if isinstance(error, MemoryError) and error.__cause__ is None and refused is not None:
            error.__cause__ = refused

    @property
    def system_calls(self) -> bool:
        """Whether system calls may use its arrays, as those of `tofile`, `np.fromfile`,
        `file.readinto` and sockets do. Otherwise they fail with EFAULT where a page is not in
        memory."""
        return self._native.kernel_faults

    def set_budget(self, budget: int | str) -> None:
        """Changes how many bytes of all its arrays may be in memory.

        Raises `ValueError` for less than 512 KiB, `OSError` in a child of a fork.
        """
        self._native.set_budget(_native.size(budget))

    def stats(self) -> dict[str, int]:
        """Counts: those of `array.region.stats()`, and of the arrays that lie in it: `arrays`, how
        many; `bytes`, of their pages; `bytes_max`, the most at one time; `bytes_room`, which the
        file has.

        Raises `OSError` in a child of a fork.
        """
        return self._native.stats()


def allocate(
    *,
    budget: int | str,
    spill: str | os.PathLike[str] | None = None,
    encrypted: bool = False,
) -> Allocator:
    """Memory of which at most `budget` bytes are in memory, for all arrays of 1 MiB and more that
    numpy makes in a `with` block of it::

        with foreread.allocate(budget="2GiB", spill="/var/tmp"):
            scaled = (a - a.mean(0)) / a.std(0)

    The other pages are in a file in the directory `spill`. `budget`, `spill` and `encrypted` are
    those of `empty`. The file grows with the arrays, and an array that is freed gives its room
    back. Smaller arrays lie in ordinary memory, as does what a library takes without numpy.

    The block holds for code of this thread or task, and for tasks that it starts; a thread that it
    starts enters the allocator itself. Arrays stay valid after the block, until they are freed.
    A child of a fork must not touch them: it is sent SIGSEGV. Arrays that it makes itself lie in
    ordinary memory, and entering the allocator there raises `OSError`.

    System calls use such arrays where the system permits that (`Allocator.system_calls`): root, or
    `sysctl vm.unprivileged_userfaultfd=1`, or the right to open `/dev/userfaultfd`. Elsewhere
    `np.load` and `np.fromfile` copy, `np.save` and `tofile` do so for
    `array.view(foreread.Array)`. Other calls fail with EFAULT: most raise `OSError`, but a library
    that takes a short read for the end of a file returns less.

    Raises `ValueError` for a budget that is too small; `PermissionError` where the system forbids
    to answer page faults; `OSError` for a directory that is not there; `ImportError` before numpy
    1.22. Where the file system has no room for an array, numpy raises `MemoryError`, whose cause
    says so when it leaves the block.
    """
    directory = None if spill is None else os.fspath(spill)
    native = _native.Allocator(_functions(), _native.size(budget), directory, encrypted)
    if not native.kernel_faults:
        _copy_what_is_read()
    return Allocator(native)


def _functions() -> Any:
    """The capsule of numpy's functions."""
    try:
        module = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        # Before numpy 2.
        module = importlib.import_module("numpy.core._multiarray_umath")
    return module._ARRAY_API


@functools.cache
def _copy_what_is_read() -> None:
    """Replaces `np.fromfile`, which `np.load` uses: the system call of numpy's own fails on absent
    pages, and it takes that for the end of the file."""
    original = np.fromfile

    @functools.wraps(original)
    def fromfile(file: Any, *args: Any, **options: Any) -> Any:
        inner = entered.get()[-1:]
        if not inner or inner[0][0].system_calls:
            return original(file, *args, **options)
        return _read(original, file, *args, **options)

    np.fromfile = fromfile


def _read(
    original: Any,
    file: Any,
    dtype: Any = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    **options: Any,
) -> Any:
    of = np.dtype(dtype)
    if sep or options or of.hasobject or not of.itemsize:
        return original(file, dtype, count, sep, offset, **options)
    if isinstance(file, str | bytes | os.PathLike):
        with builtins.open(file, "rb") as opened:
            return _read(original, opened, of, count, sep, offset)
    file.seek(offset, os.SEEK_CUR)
    if count < 0:
        count = max(os.fstat(file.fileno()).st_size - file.tell(), 0) // of.itemsize
    items = np.empty(count, of)
    if count:
        filled = fill(items, file) // of.itemsize
        if filled < count:
            items = items[:filled].copy()
    return items

"""Arrays of numpy that are larger than memory, and arrays over remote objects."""

from __future__ import annotations

import builtins
import math
import operator
import os
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from foreread import _native
from foreread._file import File, open

#: A file that is copied into an array is read in pieces of so many bytes where it is not one of
#: this package. Lower costs calls; higher costs memory.
COPIED_BYTES = 1 << 20

Shape = SupportsIndex | Sequence[SupportsIndex]


class Array(np.ndarray[Any, Any]):
    """An array whose bytes lie in a region or a view.

    It is an ordinary array for numpy and what builds on it. `region` is the memory that it lies
    in; an array that numpy makes out of it lies in ordinary memory and has none.
    """

    #: What the bytes lie in: `Region` has `advise`, `discard`, `set_budget` and `stats`, `View`
    #: has `stats`. None for an array in ordinary memory.
    region: _native.Region | _native.View | None

    def __array_finalize__(self, obj: Any) -> None:
        region = getattr(obj, "region", None)
        self.region = region if region is not None and _lies_in(self, region) else None

    def tofile(self, fid: Any, /, sep: str = "", format: str = "%s") -> None:
        """As numpy's. The kernel cannot read the memory of a region, so the bytes are copied."""
        if self.region is None or sep:
            np.ndarray.tofile(self, fid, sep, format)
            return
        if isinstance(fid, str | os.PathLike):
            with builtins.open(fid, "wb") as file:
                self.tofile(file)
            return
        flat = self.reshape(-1)
        step = max(COPIED_BYTES // max(self.itemsize, 1), 1)
        for start in range(0, flat.size, step):
            fid.write(flat[start : start + step].tobytes())


def _lies_in(array: np.ndarray[Any, Any], region: _native.Region | _native.View) -> bool:
    address = int(array.__array_interface__["data"][0])
    return region.address <= address < region.address + len(region)


def _made(
    region: _native.Region | _native.View,
    dtype: Any,
    shape: tuple[int, ...],
    offset: int,
    order: Any,
) -> Array:
    count = math.prod(shape)
    flat = np.frombuffer(memoryview(region), dtype, count, offset)
    array: Array = flat.reshape(shape, order=order).view(Array)
    array.region = region
    return array


def empty(
    shape: Shape,
    dtype: Any = float,
    *,
    budget: int | str,
    spill: str | os.PathLike[str] | None = None,
    encrypted: bool = False,
) -> Array:
    """A new array, all zero, of which at most `budget` bytes are in memory; the others are in a
    file in the directory `spill`.

    `budget` is in bytes or a text such as "2GiB", 512 KiB at least. `spill` is by default where
    the system keeps temporary files on storage; the file has no name, all its room from the
    start, and ends with the process. `encrypted` encrypts it with a key that only this process
    has. `array.region` has `advise(start, stop, "sequential" | "random" | "willneed" |
    "normal")`, `discard(start, stop)` (both in bytes), `set_budget(bytes)` and `stats()`.

    System calls that are given the array's bytes fail with EFAULT where a page is not in memory:
    read files into it by `fill`. A child of a fork must not touch it: it is sent SIGSEGV.

    Raises `ValueError` for an empty array, a negative axis, objects, or a budget that is too
    small; `PermissionError` where the system forbids to answer page faults; `OSError` where the
    file system has no room.
    """
    of = np.dtype(dtype)
    if of.hasobject:
        raise ValueError("an array of Python objects cannot lie in a region")
    sizes = _sizes(shape)
    length = math.prod(sizes) * of.itemsize
    directory = None if spill is None else os.fspath(spill)
    region = _native.Region(length, _native.size(budget), directory, encrypted)
    return _made(region, of, sizes, 0, "C")


def zeros(shape: Shape, dtype: Any = float, **options: Any) -> Array:
    """As `empty`: what it makes is zero."""
    return empty(shape, dtype, **options)


def fill(array: np.ndarray[Any, Any], file: Any, offset: int = 0) -> int:
    """Copies bytes of `file` from `offset` on into a contiguous array, in the array's own byte
    order. Returns how many bytes: fewer than fit only at the end of the file.

    `file` is a `foreread.File`, which leaves its position alone, or any object with `readinto`,
    which is read from where it is (`offset` must be 0 then). No system call is given the array's
    memory, so it may lie in a region.

    Raises `ValueError` for an array that is not contiguous or cannot be written.
    """
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("the array is not contiguous, or cannot be written")
    target = array.reshape(-1).view(np.uint8).data
    if isinstance(file, File):
        return file.read_into_at(offset, target)
    if offset:
        raise ValueError("only a foreread.File has an offset: move the file to where it is read")
    room = bytearray(min(COPIED_BYTES, len(target)))
    filled = 0
    while filled < len(target):
        count = file.readinto(memoryview(room)[: len(target) - filled])
        if not count:
            break
        target[filled : filled + count] = room[:count]
        filled += count
    return filled


def from_file(
    url: str | os.PathLike[str],
    dtype: Any = None,
    shape: Shape | None = None,
    *,
    budget: int | str,
    spill: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Array:
    """A new array as `empty` makes it, with the bytes of the object `url`.

    Without `dtype` the object is a file of numpy (`.npy`), which says dtype and shape itself; with
    it, the object is the array's bytes, and `shape` is by default one axis of all of them. Other
    options are those of `foreread.open`.

    Raises `ValueError` for an object that has too few bytes, or without a shape no whole number of
    items.
    """
    with open(url, **options) as file:
        of, sizes, offset, order = _described(file, dtype, shape)
        array = empty(math.prod(sizes), of, budget=budget, spill=spill)
        fill(array, file, offset)
    return array.reshape(sizes, order=order).view(Array)


def map(
    url: str | os.PathLike[str],
    dtype: Any = None,
    shape: Shape | None = None,
    *,
    budget: int | str = "64MiB",
    **options: Any,
) -> Array:
    """The object `url` as an array that cannot be written: bytes are read when they are touched,
    and ahead of that. At most `budget` bytes are mapped, beside the budget of the process.

    `dtype`, `shape` and the other options are those of `from_file`. The version is the current
    one. Where the storage does not deliver a page, or has another version by then, the thread
    that touches it is sent SIGBUS. A local file must not change while it is mapped.
    """
    with open(url, **options) as file:
        of, sizes, offset, order = _described(file, dtype, shape)
        view = file._open().map(_native.size(budget))
    return _made(view, of, sizes, offset, order)


def _sizes(shape: Shape) -> tuple[int, ...]:
    """The axes of a shape: one integer of any kind, or several."""
    try:
        sizes: tuple[int, ...] = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        sizes = tuple(operator.index(each) for each in shape)  # type: ignore[union-attr]
    if any(each < 0 for each in sizes):
        raise ValueError(f"an axis is not negative: {sizes}")
    return sizes


def _described(
    file: File, dtype: Any, shape: Shape | None
) -> tuple[Any, tuple[int, ...], int, Any]:
    """dtype, shape, where the bytes begin, and their order."""
    if dtype is None:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"{file.name}: version {version} of numpy's format is unknown here")
        sizes, fortran, of = read(file)
        if of.hasobject:
            raise ValueError(f"{file.name} has Python objects: only numpy.load reads it")
        found = tuple(sizes), file.tell(), "F" if fortran else "C"
    else:
        of = np.dtype(dtype)
        if of.itemsize == 0:
            raise ValueError(f"items of dtype {of} have no bytes")
        if shape is None:
            shape, rest = divmod(file.size, of.itemsize)
            if rest:
                raise ValueError(
                    f"{file.name} has {file.size} bytes, no multiple of the {of.itemsize} of {of}"
                )
        found = _sizes(shape), 0, "C"
    sizes, offset, order = found
    needed = offset + math.prod(sizes) * of.itemsize
    if needed > file.size:
        raise ValueError(f"{file.name} has {file.size} bytes, and the array needs {needed}")
    return of, sizes, offset, order

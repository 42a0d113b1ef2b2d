"""Arrays of numpy that are larger than memory, and arrays over remote objects."""

from __future__ import annotations

import builtins
import math
import operator
import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, SupportsIndex, TypeGuard

import numpy as np

from foreread import _argsort, _native, _variance
from foreread._file import File, open

#: A file that is copied into an array is read in pieces of so many bytes where it is not one of
#: this package. Lower costs calls; higher costs memory.
COPIED_BYTES = 1 << 20

#: Bytes of a page of a region, in which its budget is told.
PAGE_BYTES = 4096

#: Names of ways to sort: all are the stable one here.
SORTS = ("quicksort", "heapsort", "mergesort", "stable")

#: Rules of casts that a copy into another array has; numpy's `astype` has more.
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")

#: The smallest budget of a region.
BUDGET_BYTES_MIN = 512 << 10

#: The allocators that were entered in this context, the innermost last, each with the handler that
#: numpy had before: see `_allocate`.
entered: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("foreread_allocators", default=())

Shape = SupportsIndex | Sequence[SupportsIndex]


class Array(np.ndarray[Any, Any]):
    """An array whose bytes lie in a region or a view.

    It is an ordinary array for numpy and what builds on it. `region` is the memory that it lies
    in; an array that numpy makes out of it lies in ordinary memory and has none. But a copy of
    what lies in a region, and the indices that sort it, lie in regions like it where they are
    larger than its budget: of `copy`, `flatten`, `astype` and `argsort`, and of `np.sort`,
    `np.median` and others that begin with one of these. These raise `OSError` where the file
    system has no room, and a child of a fork must not touch what they made.
    """

    #: What the bytes lie in: `Region` has `advise`, `discard`, `set_budget` and `stats`, `View`
    #: has `stats`. None for an array in ordinary memory.
    region: _native.Region | _native.View | None

    #: How regions are made for what is made out of it: the directory, and whether encrypted.
    _spill: tuple[str | None, bool]

    def __array_finalize__(self, obj: Any) -> None:
        region = getattr(obj, "region", None)
        self.region = region if region is not None and _lies_in(self, region) else None
        self._spill = getattr(obj, "_spill", (None, False))

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        if operator.index(protocol) < 5:
            return super().__reduce_ex__(protocol)
        # numpy gives the bytes of its own class alone as a buffer that need not be copied.
        return _seen, (self.view(np.ndarray),)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.unique and len(args) == 1 and not set(kwargs) - {"equal_nan", "sorted"}:
            array = args[0]
            if isinstance(array, Array) and (array.region is not None or _is_allocated(array)):
                # numpy puts all numbers into a table in ordinary memory, unless it has to count.
                options = {**kwargs, "return_counts": True}
                return super().__array_function__(func, types, args, options)[0]
        return super().__array_function__(func, types, args, kwargs)

    def _like(self, shape: Shape, dtype: Any) -> Array | None:
        """A new array in a region like that of this one, if it is larger than its budget."""
        of = np.dtype(dtype)
        budget = self._budget()
        if of.hasobject or not 0 < budget < math.prod(_sizes(shape)) * of.itemsize:
            return None
        return self._beside(shape, of, budget)

    def _beside(self, shape: Shape, dtype: Any, budget: int) -> Array:
        """A new array with such a budget, in a region of its own: but in a block of
        `foreread.allocate` in that one, so that what is made there has one budget."""
        if entered.get():
            return np.zeros(_sizes(shape), dtype).view(Array)
        spill, encrypted = self._spill
        return empty(shape, dtype, budget=budget, spill=spill, encrypted=encrypted)

    def _budget(self) -> int:
        """The budget of its region, in bytes; 0 without one."""
        region = self.region
        return region.stats()["pages_budget"] * PAGE_BYTES if _is_region(region) else 0

    def _axes(self, order: Any, usual: str) -> list[int] | None:
        """Its axes as a copy in this order has them, the slowest one first; None where the order
        is none of numpy's."""
        letter = usual if order is None else order.upper() if isinstance(order, str) else ""
        axes = list(range(self.ndim))
        if letter == "K":
            return sorted(axes, key=lambda axis: -abs(self.strides[axis]))
        if letter == "F" or (letter == "A" and self.flags.fnc):
            return axes[::-1]
        return axes if letter in ("C", "A") else None

    def _copied(self, dtype: Any, order: Any, usual: str = "C") -> Array | None:
        """A copy that is larger than the budget, if it is."""
        axes = self._axes(order, usual)
        if axes is None:
            return None
        made = self._like([self.shape[axis] for axis in axes], dtype)
        if made is None:
            return None
        made = made.transpose(np.argsort(axes).tolist())
        _copy(self, made, self._budget() // PAGE_BYTES // 4)
        return made

    def copy(self, order: Any = "C") -> Any:
        """As numpy's."""
        made = self._copied(self.dtype, order)
        return np.ndarray.copy(self, order) if made is None else made

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: Any, /) -> Any:
        made = self._copied(self.dtype, "K")
        return np.ndarray.__deepcopy__(self, memo) if made is None else made

    def flatten(self, order: Any = "C") -> Any:
        """As numpy's."""
        axes = self._axes(order, "C")
        made = None
        # Where an axis repeats its items, numpy's own order of axes here is not that of `copy`.
        if axes is not None and (order not in ("K", "k") or 0 not in self.strides):
            turned: Any = self.transpose(axes)
            made = turned._copied(self.dtype, "C")
        return np.ndarray.flatten(self, order) if made is None else made.reshape(-1)

    def astype(
        self,
        dtype: Any,
        order: Any = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: Any = True,
    ) -> Any:
        """As numpy's."""
        of = np.dtype(dtype)
        is_new = subok and (copy or of != self.dtype) and casting in CASTINGS
        may_be = is_new and _is_whole(of) and np.can_cast(self.dtype, of, casting)
        made = self._copied(of, order, "K") if may_be else None
        if made is None:
            return np.ndarray.astype(self, dtype, order, casting, subok, copy)
        return made

    def argsort(
        self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
    ) -> Any:
        """As numpy's; a stable order where it is larger than the budget."""
        items: Any = self.reshape(-1) if axis is None and self.flags.c_contiguous else self
        axes = None if isinstance(axis, tuple) else _reduced(axis, self.ndim)
        is_last = items.ndim == 1 or (axes == {items.ndim - 1} and items.flags.c_contiguous)
        is_known = kind is None or (stable is None and kind in SORTS)
        made = None
        if axes is not None and is_last and is_known and order is None and items.dtype.kind != "V":
            made = items._like(items.shape, np.intp)
        if made is None:
            return np.ndarray.argsort(self, axis, kind, order, stable=stable)
        budget = self._budget()

        def beside(count: int, dtype: Any) -> Any:
            return self._beside(count, dtype, max(budget // 2, BUDGET_BYTES_MIN))

        length = items.shape[-1]
        rows, found = items.reshape(-1, length), made.reshape(-1, length)
        if length * (self.itemsize + made.itemsize) > budget // 4:
            for row, into in zip(rows, found, strict=True):
                _argsort.argsort(row, budget, beside, into)
            return made
        step = max(budget // 4 // (length * (self.itemsize + made.itemsize)), 1)
        for start in range(0, len(rows), step):
            part = np.asarray(rows[start : start + step])
            found[start : start + step] = np.argsort(part, -1, "stable")
        return made

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **options: Any,
    ) -> Any:
        """As numpy's, which subtracts the mean from a copy of all: here, of a part at a time,
        where all would be larger than the budget. With `dtype`, `out` or `where`, and of numbers
        of half precision, it is numpy's."""
        axes = _reduced(axis, self.ndim)
        is_plain = dtype is None and out is None and not options
        is_plain = is_plain and isinstance(ddof, int | float | np.integer | np.floating)
        is_number = self.dtype.kind in "biufc" and self.dtype != np.float16
        budget = self._budget()
        if axes is None or not (is_plain and is_number and 0 < budget < self.nbytes):
            return np.ndarray.var(self, axis, dtype, out, ddof, keepdims=keepdims, **options)
        # As memory has them, so that each part is a few runs of bytes, whatever the order.
        by_stride = sorted(range(self.ndim), key=lambda each: -abs(self.strides[each]))
        items: Any = np.asarray(self).transpose(by_stride)
        reduced = tuple(at for at, each in enumerate(by_stride) if each in axes)
        found = _variance.variance(items, reduced, ddof, budget // 4)
        found = found.transpose(np.argsort(by_stride).tolist())
        found = found if keepdims else found.squeeze(tuple(axes))
        return found.view(type(self)) if found.ndim else found[()]

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **options: Any,
    ) -> Any:
        """As numpy's; see `var`."""
        if dtype is None and out is None and not options:
            return np.sqrt(self.var(axis, ddof=ddof, keepdims=keepdims))
        return np.ndarray.std(self, axis, dtype, out, ddof, keepdims=keepdims, **options)

    def tofile(self, fid: Any, /, sep: str = "", format: str = "%s") -> None:
        """As numpy's. The kernel cannot read the memory of a region, so the bytes are copied."""
        is_copied = self.region is not None or _is_allocated(self)
        if sep or not is_copied:
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


def _seen(array: np.ndarray[Any, Any]) -> Array:
    return array.view(Array)


def _copy(of: np.ndarray[Any, Any], into: np.ndarray[Any, Any], pages: int) -> None:
    """Copies an array that lies in a region: where its rows are columns of the other one, in
    squares that touch so many pages of each."""
    if of.ndim != 2 or (of.strides[0] < of.strides[1]) == (into.strides[0] < into.strides[1]):
        np.copyto(into, of, casting="unsafe")
        return
    for row in range(0, len(of), pages):
        for column in range(0, of.shape[1], pages):
            square = slice(row, row + pages), slice(column, column + pages)
            np.copyto(into[square], of[square], casting="unsafe")


def _is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether an array that is cast to it has this dtype and no more axes: numpy takes a unit of
    time that is not given from the items."""
    is_unknown = dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"
    return dtype.subdtype is None and not is_unknown


def _reduced(axis: Any, count: int) -> set[int] | None:
    """The axes that are meant, of so many; None for what numpy has to answer, mostly by an
    error."""
    given = tuple(range(count)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    # Python takes True and 1.0 for 1.
    if any(isinstance(each, bool) or not isinstance(each, int | np.integer) for each in given):
        return None
    axes = {int(each) % count for each in given if -count <= each < count}
    return axes if len(axes) == len(given) else None


def _is_allocated(array: np.ndarray[Any, Any]) -> bool:
    """Whether it lies in memory of `foreread.allocate`."""
    return _native.is_allocated(int(array.__array_interface__["data"][0]))


def _is_region(region: Any) -> TypeGuard[_native.Region]:
    return isinstance(region, _native.Region)


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
    array._spill = (None, False)
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
    array = _made(region, of, sizes, 0, "C")
    array._spill = (directory, encrypted)
    return array


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

"""Ranges of several files: which are read, and where the answers belong."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from foreread import _native

#: Paths, and where the range of each begins and ends.
Asked = tuple[Sequence[str], Sequence[int | None], Sequence[int | None]]


def extent(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Where a range begins, and how long it is."""
    first = 0 if start is None else operator.index(start)
    last = size if end is None else operator.index(end)
    first = max(size + first, 0) if first < 0 else first
    last = size + last if last < 0 else last
    return first, max(last - first, 0)


def asked(
    paths: Sequence[str],
    starts: int | Sequence[int | None] | None,
    ends: int | Sequence[int | None] | None,
) -> Asked:
    """A range for each path.

    Raises `ValueError` where there are not as many as paths.
    """
    return paths, _each(starts, paths), _each(ends, paths)


def _each(given: int | Sequence[int | None] | None, paths: Sequence[str]) -> Sequence[int | None]:
    # numpy's integers are none of Python's.
    each = given if hasattr(given, "__len__") else [given] * len(paths)
    if len(each) != len(paths):  # type: ignore[arg-type]
        raise ValueError("paths, starts and ends are equally many")
    return each  # type: ignore[return-value]


def reads(
    wanted: Asked, handles: dict[str, Any]
) -> tuple[list[tuple[_native.Handle, int, int]], list[int]]:
    """What is read, and of which of the paths each is."""
    read, place = [], []
    for index, (path, start, end) in enumerate(zip(*wanted, strict=True)):
        handle = handles[path]
        if not isinstance(handle, BaseException):
            read.append((handle, *extent(handle.size, start, end)))
            place.append(index)
    return read, place


def placed(
    read: Iterable[Any], place: list[int], paths: Sequence[str], handles: dict[str, Any]
) -> list[Any]:
    """What was read, or the error of the file, for each of `paths`."""
    out = [handles[path] for path in paths]
    put(out, place, read)
    return out


def put(out: list[Any], place: list[int], found: Iterable[Any]) -> None:
    """Puts what was found in its places."""
    for index, data in zip(place, found, strict=True):
        out[index] = data


def changed(wanted: Asked, found: list[Any]) -> tuple[list[int], Asked]:
    """Which ranges are of files that were replaced, and these: all of a file, so that they are of
    one version."""
    paths, starts, ends = wanted
    both = zip(paths, found, strict=True)
    names = {path for path, data in both if isinstance(data, _native.VersionChanged)}
    place = [index for index, path in enumerate(paths) if path in names] if names else []
    again = (
        [paths[index] for index in place],
        [starts[index] for index in place],
        [ends[index] for index in place],
    )
    return place, again


def checked(found: list[Any], on_error: str) -> list[Any]:
    """What was found. Raises the first error, unless they are to be returned."""
    if on_error != "return":
        for data in found:
            if isinstance(data, BaseException):
                raise data
    return found

"""Copies of files of a file system of fsspec to local ones, several at a time.

::

    names ─ opened together ─┬─ small files ──> one set of reads ─┬─> threads, which write
                             └─ a large file ─> pieces, in order ─┘

The order of the files is told to the engine, so that it fetches them and no others.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import os
import threading
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from foreread import _native
from foreread._native import VersionChanged

if TYPE_CHECKING:
    from foreread.fsspec import ForereadFileSystem

#: A name, where it is copied to, and the open file.
Copy = tuple[str, str, _native.Handle]

# Measured with a first byte of 1 ms and of 200 ms, 80 MB/s a connection, 900 MB/s, each constant
# at a tenth and at ten times of what it was: 10,000 files of 1 KB, 200 of 1 MB, 20 of 20 MB, and
# 4, 10 and 60 files of a directory of 10,000. One or two runs of each on a loaded machine, with
# four threads; seconds at 200 ms, where nothing else is said. At 1 ms, files of 1 KB took 1.3 to
# 2.2 with all values, and those of 20 MB .7 to 1.1.

#: Bytes that are copied of a file at a time. Lower costs calls: with .4 MB, 20 MB files take 3.7
#: in place of 2.1. Higher costs memory, and gains nothing: 2.0 with 40 MB.
COPIED_BYTES = 4 << 20

#: The longest file that is read as a whole together with others, in bytes. Lower: files of middle
#: size come one by one; with .1 MB, 1 MB files take 11.0 in place of 1.7 (.9 in place of .4 at 1
#: ms). Higher costs memory, and gains nothing: 1.8 with 10 MB.
SMALL_BYTES = 1 << 20

#: How much is read together at most: files, which are opened together, too, and bytes. Lower: the
#: storage waits between two sets; with 25 files, those of 1 KB take 25 in place of 8.4, with .8 MB
#: those of 1 MB 11 in place of 1.7. Higher costs memory, and versions are older when they are
#: read; with 2,560 files 3.5 in place of 8.4, as more threads gain; with 80 MB .9 in place of 1.7,
#: but .6 in place of .4 at 1 ms.
TOGETHER = 256
TOGETHER_BYTES = 8 << 20

#: Threads that copy. Lower: large files come one after another; with 4, files of 1 KB take 8.4 in
#: place of 4.5, those of 1 MB 1.7 in place of 1.1; with 1, 13.7 and 5.4. Higher costs memory, a
#: set each; with 16, 4.7 and 1.0, with 40, 4.0 and .8, but .6 in place of .4 at 1 ms for those of
#: 1 MB.
THREADS = 8

#: The fewest files whose order is told. Lower: a directory may be listed for a few names of it;
#: with 8, 10 files of one of 10,000 take 1.7 and 29 requests, in place of .6 and 39. Higher: what
#: lies beside a few files may be fetched with them, some 24 files here.
TOLD = 64


def local(path: Any) -> Any:
    """A local path, or several, as texts."""
    if isinstance(path, list | tuple):
        return [stringify_path(each) for each in path]
    return stringify_path(path)


def pairs(fs: ForereadFileSystem, *args: Any, **kwargs: Any) -> list[tuple[str, str]]:
    """What `get` of fsspec copies with these arguments, and where to."""
    found: list[tuple[str, str]] = []

    def get_file(rpath: str, lpath: str, **_: Any) -> None:
        found.append((rpath, lpath))

    asked = types.SimpleNamespace(expand_path=fs.expand_path, isdir=fs.isdir, get_file=get_file)
    AbstractFileSystem.get(asked, *args, **kwargs)
    return found


@contextlib.contextmanager
def told(fs: ForereadFileSystem, paths: Sequence[str]) -> Iterator[None]:
    """Tells the engine that `paths` are read in this order, unless the program has told one."""
    with contextlib.ExitStack() as stack:
        if len(paths) >= TOLD and not fs.is_told():
            # What is wrong with a name, its open says. An order may be too long for an engine of
            # another process.
            with contextlib.suppress(OSError, ValueError):
                stack.enter_context(fs.prefetch(paths))
        yield


def get(fs: ForereadFileSystem, wanted: list[tuple[str, str]], callback: Any) -> None:
    """Copies files to local paths. Directories are made. The first error is raised, and ends what
    is under way."""
    callback.set_size(len(wanted))
    above: set[str] = set()
    if len(wanted) > 1:
        for rpath, _ in wanted:
            parent = os.path.dirname(fs._strip_protocol(rpath))
            while parent and parent not in above:
                above.add(parent)
                parent = os.path.dirname(parent)
    files = []
    for rpath, lpath in wanted:
        if fs._strip_protocol(rpath) in above:
            os.makedirs(lpath, exist_ok=True)
            callback.relative_update(1)
        else:
            files.append((rpath, lpath))
    with told(fs, [rpath for rpath, _ in files]):
        copies = Copies(fs, callback)
        _run(copies, _units(fs, files, callback))


def _units(
    fs: ForereadFileSystem, files: list[tuple[str, str]], callback: Any
) -> Iterator[list[Copy]]:
    """Files that one thread copies: a large one, or several small ones."""
    for start in range(0, len(files), TOGETHER):
        together = files[start : start + TOGETHER]
        handles: dict[str, Any] = {}
        for store, keys in fs._by_store([rpath for rpath, _ in together]):
            opened = store.open_together(list(keys.values()), True)
            handles.update(zip(keys, opened, strict=True))
        small: list[Copy] = []
        small_bytes = 0
        for rpath, lpath in together:
            handle = handles[rpath]
            if isinstance(handle, BaseException):
                if not fs.isdir(rpath):
                    raise handle
                os.makedirs(lpath, exist_ok=True)
                callback.relative_update(1)
            elif handle.size > SMALL_BYTES:
                yield [(rpath, lpath, handle)]
            else:
                small.append((rpath, lpath, handle))
                small_bytes += handle.size
                if small_bytes >= TOGETHER_BYTES:
                    yield small
                    small, small_bytes = [], 0
        if small:
            yield small


def _run(copies: Copies, units: Iterable[list[Copy]]) -> None:
    units = iter(units)
    first = next(units, None)
    if first is None:
        return
    second = next(units, None)
    if second is None:
        # On this thread, whose waits Ctrl-C ends.
        copies.copy(first)
        return
    pool = concurrent.futures.ThreadPoolExecutor(THREADS, "foreread-get")
    try:
        running = {pool.submit(copies.copy, first), pool.submit(copies.copy, second)}
        for unit in units:
            running.add(pool.submit(copies.copy, unit))
            if len(running) > THREADS:
                running = _ended(running)
        while running:
            running = _ended(running)
    except BaseException as error:
        copies.stopped.set()
        # Ctrl-C does not wait for storage that says nothing.
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()


def _ended(running: set[Any]) -> set[Any]:
    """Waits for one, raises the error of what has ended, and returns what has not."""
    done, left = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
    for each in done:
        each.result()
    return left


class Copies:
    """Copies that several threads make, with one callback."""

    def __init__(self, fs: ForereadFileSystem, callback: Any) -> None:
        self._fs = fs
        self._callback = callback
        #: Callbacks of programs are not made for threads.
        self._telling = threading.Lock()
        self.stopped = threading.Event()

    def copy(self, unit: list[Copy]) -> None:
        if len(unit) == 1:
            self._write(unit[0], None)
            return
        ranges = [(handle, 0, handle.size) for _, _, handle in unit]
        read: list[Any] = list(_native.read_together(ranges, True))
        for data in read:
            if isinstance(data, BaseException) and not isinstance(data, VersionChanged):
                raise data
        # The bytes of a file are given up when it is written.
        read.reverse()
        for each in unit:
            self._write(each, [read.pop()])

    def _write(self, copy: Copy, data: list[Any] | None) -> None:
        rpath, lpath, handle = copy
        if self.stopped.is_set():
            return
        with contextlib.ExitStack() as stack:
            with self._telling:
                child = self._callback.branched(rpath, lpath)
                child.__enter__()
            stack.callback(self._over, child)
            if not to_name(self._fs, rpath, handle, lpath, child, data, self):
                return
        with self._telling:
            self._callback.relative_update(1)

    def _over(self, child: Any) -> None:
        with self._telling:
            child.__exit__(None, None, None)

    def telling(self) -> contextlib.AbstractContextManager[Any]:
        """While the callback of a copy is told something."""
        return self._telling


class Alone:
    """One copy, on the thread of the program."""

    stopped = threading.Event()

    def telling(self) -> contextlib.AbstractContextManager[Any]:
        """As of `Copies`."""
        return contextlib.nullcontext()


def to_name(
    fs: ForereadFileSystem,
    path: str,
    handle: _native.Handle,
    lpath: Any,
    callback: Any,
    data: list[Any] | None = None,
    copies: Copies | Alone | None = None,
) -> bool:
    """As `to_target`, to a local path, whose directories are made."""
    os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
    with open(lpath, "wb") as target:
        return to_target(fs, path, handle, target, callback, data, copies, is_ours=True)


def to_target(
    fs: ForereadFileSystem,
    path: str,
    handle: _native.Handle,
    target: Any,
    callback: Any,
    data: list[Any] | None = None,
    copies: Copies | Alone | None = None,
    is_ours: bool = False,
) -> bool:
    """Copies a file. If it turns out to be replaced, it is copied once more from its start.

    `data` has its bytes, or how it failed, if it was read with others; they are taken from there.
    `callback` is told of its size and of each piece. A target that `is_ours` keeps nothing of what
    is written, so that all pieces come in the same memory: new memory costs as much as a copy, a
    page at a time. Returns whether the copy is complete: it is
    not where `copies` were stopped.
    """
    copies = copies or Alone()
    copied = 0
    for is_last in (False, True):
        with copies.telling():
            callback.set_size(handle.size)
        try:
            for piece in _pieces(handle, data, is_ours):
                if copies.stopped.is_set():
                    return False
                _put(target, piece)
                copied += len(piece)
                with copies.telling():
                    callback.relative_update(len(piece))
            return True
        except VersionChanged:
            if is_last or (copied and not target.seekable()):
                raise
        if copied:
            target.seek(-copied, os.SEEK_CUR)
            target.truncate()
            with copies.telling():
                callback.absolute_update(0)
        copied, handle, data = 0, fs._handle(path, fresh=True), None
    return False


def _pieces(
    handle: _native.Handle, data: list[Any] | None, is_ours: bool
) -> Iterator[bytes | memoryview]:
    if data is None:
        starts = range(0, handle.size, COPIED_BYTES)
        room = memoryview(bytearray(min(COPIED_BYTES, handle.size) if is_ours else 0))
        for start in starts:
            if is_ours:
                yield room[: handle.read_into(start, room)]
            else:
                yield handle.read_at(start, COPIED_BYTES)
        return
    piece = data.pop()
    if isinstance(piece, BaseException):
        raise piece
    yield piece


def _put(target: Any, piece: bytes | memoryview) -> None:
    """Writes all of a piece. A file without a buffer may take fewer bytes at a time."""
    left = memoryview(piece)
    while left:
        # What is no file of Python's may know bytes alone, and say nothing.
        count = target.write(piece if len(left) == len(piece) else left)
        if not count:
            if isinstance(target, io.RawIOBase):
                raise BlockingIOError(f"{target} takes no more bytes")
            return
        left = left[count:]

"""Files for asyncio: each operation is awaited on the loop that it is called on."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Any

from foreread import _native
from foreread._options import parse

_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Completions] = (
    weakref.WeakKeyDictionary()
)


def completions() -> _native.Completions:
    """Where operations of the running loop are told of."""
    loop = asyncio.get_running_loop()
    found = _loops.get(loop)
    if found is None:
        found = _loops[loop] = _native.Completions(weakref.ref(loop))
    return found


def open_async(url: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens the object that `url` names, at its current version: one request.

    Await it, or use it with `async with`: both give an `AsyncFile`. URL, options and errors are
    those of `foreread.open`. No thread waits, and no other event loop is involved.
    """
    return Opening(os.fspath(url), parse(options))


class Opening:
    """A file that is about to be opened: `await` it, or use `async with`."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._file: AsyncFile | None = None

    async def _open(self) -> AsyncFile:
        store, path = _native.place(self._url)
        to = completions()
        handle = await _native.Store(store, **self._options).open(path, to=to)
        self._file = AsyncFile(self._url, handle)
        return self._file

    def __await__(self) -> Generator[Any, Any, AsyncFile]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncFile:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()


class AsyncFile:
    """An object that is open for reading, pinned to one version, for asyncio.

    Reads return all the bytes that were asked for, fewer only at the end. Errors are those of
    `foreread.File`. A read whose task is cancelled delivers nothing; its request goes on for other
    readers of the same bytes.
    """

    def __init__(self, url: str, handle: _native.Handle) -> None:
        #: The URL that was opened.
        self.name = url
        self._handle: _native.Handle | None = handle

    def _open(self) -> _native.Handle:
        if self._handle is None:
            raise ValueError("I/O operation on closed file.")
        return self._handle

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._open().size

    @property
    def version(self) -> _native.Version:
        """The version that is read: `size`, `tag`, `modified_ns`."""
        return self._open().version

    @property
    def closed(self) -> bool:
        """Whether it was given up."""
        return self._handle is None

    async def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; fewer only at the end, none beyond it."""
        return await self._open().read_at(offset, length, completions())

    async def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges, (offset, length) each, in the same order.

        All are in flight before any is waited for; adjacent ones share requests.
        """
        handle = self._open()
        reads = [(handle, offset, length) for offset, length in ranges]
        return await _native.read_together(reads, to=completions())

    def close(self) -> None:
        """Gives the file up."""
        self._handle = None

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"{self._handle.size} bytes"
        return f"<foreread.AsyncFile {self.name!r}, {state}>"

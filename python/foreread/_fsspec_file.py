"""Files of a file system of fsspec, and how a cache of fsspec's is put before one.

::

    open ──> no version is fixed ── first read, or version told ──> one version
                 └─ replaced meanwhile: opened afresh, once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from foreread import _native
from foreread._file import File
from foreread._native import VersionChanged

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from foreread.fsspec import ForereadFileSystem

#: Bytes of a block where a cache of fsspec's is put before a file: fsspec's own default.
BLOCK_BYTES = 5 << 20


class ForereadFile(File):
    """A file of a `ForereadFileSystem`: a `foreread.File` with what fsspec's files have.

    It was opened at a version that may be a second old. Its version is the one that the first read
    finds: if the object was replaced meanwhile, that read opens it afresh. Not so once the version
    was told, or a size that is another one now: what a program has computed from these would be of
    another file. Threads may read at once, and one may fork meanwhile: there is no lock. The first
    one to be done says which version it is.
    """

    #: Whether its version stays. Handle and size are that version's then.
    _is_fixed = False
    #: Whether a program may know its size.
    _size_told = False

    def __init__(
        self,
        url: str,
        handle: _native.Handle,
        options: dict[str, Any],
        fs: ForereadFileSystem,
        path: str,
    ) -> None:
        super().__init__(url, handle, options)
        self.fs = fs
        self.path = path
        #: What a cache of fsspec's has at a time, in bytes. Requests do not depend on it.
        self.blocksize = BLOCK_BYTES

    @property
    def cache(self) -> Any:
        """A cache of fsspec's, through which the file is read once one is set."""
        handle = self._handle
        return handle.cache if isinstance(handle, CachedHandle) else None

    @cache.setter
    def cache(self, cache: Any) -> None:
        handle: Any = self._open()
        raw = handle.handle if isinstance(handle, CachedHandle) else handle
        # What is in a cache is of one version.
        raw = self._fix(raw)
        self._handle = raw if cache is None else CachedHandle(raw, cache)  # type: ignore[assignment]

    def _fetch_range(self, start: int, end: int) -> bytes:
        """What the cache asks for."""
        handle: Any = self._open()
        raw: _native.Handle = handle.handle if isinstance(handle, CachedHandle) else handle
        return raw.read_at(start, end - start)

    def _fix(self, handle: _native.Handle) -> _native.Handle:
        """The version from now on: of this handle, unless it was said before."""
        fixed: _native.Handle = self.__dict__.setdefault("_fixed", handle)
        if not self._is_fixed:
            # In this order: what other threads read meanwhile with the former handle is read
            # again, and a handle with its own size only is believed.
            self._size = fixed.size
            if not isinstance(self._handle, CachedHandle):
                self._handle = fixed
            # `close` says so before it gives the handle up.
            if self.closed:
                self._handle = None
            self._is_fixed = True
        return fixed

    def _first(self, read: Callable[..., Any], *args: Any) -> Any:
        """What `read` returns, of the version that it finds."""
        handle, position = self._open(), self._position
        try:
            found = read(self, *args)
        except VersionChanged:
            fresh = self.fs._handle(self.path, fresh=True)
            if self.closed or (self._size_told and fresh.size != handle.size):
                raise
            version = self._fix(fresh)
            if version is handle:
                raise
        else:
            version = self._fix(handle)
            if version is handle:
                return found
        self._position = position
        return read(self, *args)

    @property
    def size(self) -> int:
        """Length in bytes."""
        self._size_told = True
        return self._size

    @property
    def version(self) -> _native.Version:
        """The version that is read."""
        return self._fix(self._open()).version

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; fewer only at the end, none beyond it."""
        if self._is_fixed:
            return File.read_at(self, offset, length)
        found: bytes = self._first(File.read_at, offset, length)
        return found

    def read_into_at(self, offset: int, buffer: WriteableBuffer) -> int:
        """Fills `buffer` from `offset` on. Returns how many bytes: fewer only at the end."""
        if self._is_fixed:
            return File.read_into_at(self, offset, buffer)
        count: int = self._first(File.read_into_at, offset, buffer)
        return count

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """As of a `foreread.File`; through a cache, one after another."""
        if self.cache is not None:
            return [self.read_at(offset, length) for offset, length in ranges]
        if self._is_fixed:
            return File.read_ranges(self, ranges)
        found: list[bytes] = self._first(File.read_ranges, list(ranges))
        return found

    def read(self, size: int | None = -1, /) -> bytes:
        """`size` bytes from the position on, or all that are left."""
        if self._is_fixed:
            return File.read(self, size)
        found: bytes = self._first(File.read, size)
        return found

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fills `buffer` from the position on. Returns how many bytes: fewer only at the end."""
        if self._is_fixed:
            return File.readinto(self, buffer)
        count: int = self._first(File.readinto, buffer)
        return count

    def peek(self, size: int = 0, /) -> bytes:
        """Bytes from the position on, which stays."""
        if self._is_fixed:
            return File.peek(self, size)
        found: bytes = self._first(File.peek, size)
        return found

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Moves the position, in bytes from the start (0), the position (1) or the end (2)."""
        self._size_told |= whence == 2
        return File.seek(self, offset, whence)

    @property
    def closed(self) -> bool:
        """Whether it was given up."""
        return super().closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        """Caches of fsspec's say so after `close`."""

    @property
    def full_name(self) -> str:
        """The URL."""
        return self.name

    @property
    def details(self) -> dict[str, Any]:
        """The entry of the file, as `info` has it."""
        return {"name": self.path, "size": self.size, "type": "file"}

    def __reduce_ex__(self, protocol: object, /) -> tuple[Any, ...]:
        handle = self._fix(self._open())
        return (_again, (self.fs, self.path, handle.key, handle.version, self._position))


class CachedHandle:
    """An open object whose bytes come from a cache of fsspec's, which asks for those that it does
    not have. What is known of the object is the object's."""

    def __init__(self, handle: _native.Handle, cache: Any) -> None:
        self.handle = handle
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)

    def read_at(self, offset: int, length: int) -> bytes:
        """As a handle's."""
        if offset < 0 or length < 0:
            raise ValueError(f"offset and length are not negative: {offset}, {length}")
        end = min(offset + length, self.handle.size)
        return bytes(self.cache._fetch(offset, end)) if offset < end else b""

    def read_into(self, offset: int, buffer: Any) -> int:
        """As a handle's."""
        room = memoryview(buffer).cast("B")
        data = self.read_at(offset, len(room))
        room[: len(data)] = data
        return len(data)


def _again(
    fs: ForereadFileSystem, path: str, key: str, version: _native.Version, position: int
) -> ForereadFile:
    """The file that was pickled, at its version. Sends nothing."""
    store, _, _ = fs._place(path)
    file = fs._file(path, store.open_version(key, version))
    file._fix(file._open())
    file.seek(position)
    return file

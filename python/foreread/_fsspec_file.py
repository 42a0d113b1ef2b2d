"""A file of a file system of fsspec, and how a cache of fsspec's is put before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foreread import _native
from foreread._file import File

if TYPE_CHECKING:
    from foreread.fsspec import ForereadFileSystem

#: Bytes of a block where a cache of fsspec's is put before a file: fsspec's own default.
BLOCK_BYTES = 5 << 20


class ForereadFile(File):
    """A file of a `ForereadFileSystem`: a `foreread.File` with what fsspec's files have."""

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
        self._handle = raw if cache is None else CachedHandle(raw, cache)  # type: ignore[assignment]

    def _fetch_range(self, start: int, end: int) -> bytes:
        """What the cache asks for."""
        handle: Any = self._open()
        raw: _native.Handle = handle.handle if isinstance(handle, CachedHandle) else handle
        return raw.read_at(start, end - start)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """As of a `foreread.File`; through a cache, one after another."""
        if self.cache is None:
            return super().read_ranges(ranges)
        return [self.read_at(offset, length) for offset, length in ranges]

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
        handle = self._open()
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
    file.seek(position)
    return file

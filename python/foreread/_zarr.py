"""A store of zarr 3: arrays and groups of arrays, read from where they are.

::

    root = zarr.open(foreread.Store("s3://bucket/a.zarr"), mode="r")

Chunks that zarr asks for together are in flight together. What is known of the names of a
directory says which chunks are missing, so that those cost no request each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.abc.store import Store as _Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from foreread import _native
from foreread._async import completions
from foreread._native import VersionChanged
from foreread._options import parse
from foreread._ranges import checked, put

__all__ = ["Store"]


class Store(_Store):
    """The keys below `url`, for reading.

    `url` and options are those of `foreread.open`. A key that is not there is `None`, as zarr has
    it; other errors are those of `foreread.File`. Each value is read at the version that it has
    when it is asked for: where that is another one than names said, its name is asked for once
    more. Two stores are equal if their URLs and options are. Processes and hosts
    can be sent one: it connects anew where it arrives.

    Writing raises `ValueError`, as with zarr's own stores that are opened for reading.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, url: str, *, read_only: bool = True, **options: Any) -> None:
        if not read_only:
            raise ValueError(
                "foreread.Store is for reading: write through the storage's own client"
            )
        super().__init__(read_only=True)
        self._url = url.rstrip("/")
        self._options = parse(options)
        store, path = _native.place(self._url)
        self._store = _native.Store(store, **self._options)
        self._top = f"{path}/" if path else ""

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Store) and self._url == other._url and self._options == other._options
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"foreread.Store({self._url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self._url, self._options))

    def with_read_only(self, read_only: bool = False) -> Store:
        """The same store; it cannot be written to: then raises `NotImplementedError`."""
        if not read_only:
            super().with_read_only(read_only)
        return Store(self._url, **self._options)

    def _path(self, key: str) -> str:
        return self._top + key

    async def _handle(self, key: str) -> _native.Handle | None:
        (handle,) = await self._store.open_together([self._path(key)], True, to=completions())
        return _there(handle)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The value of `key`, or a part of it; `None` if there is none."""
        (value,) = await self.get_partial_values(
            prototype or default_buffer_prototype(), [(key, byte_range)]
        )
        return value

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Several values or parts of values, in their order, asked for together."""
        wanted = list(key_ranges)
        found = await self._read(wanted)
        # All parts of a value are of one version.
        both = zip(wanted, found, strict=True)
        names = {key for (key, _), data in both if isinstance(data, STALE)}
        if names:
            place = [at for at, (key, _) in enumerate(wanted) if key in names]
            put(found, place, await self._read([wanted[at] for at in place], fresh=True))
        make = prototype.buffer.from_bytes
        return [None if data is None else make(data) for data in checked(found, "raise")]

    async def _read(
        self, wanted: Sequence[tuple[str, ByteRequest | None]], fresh: bool = False
    ) -> list[Any]:
        """Bytes or errors of reading; `None` for keys that are not there."""
        keys = list(dict.fromkeys(key for key, _ in wanted))
        paths = [self._path(key) for key in keys]
        parts: dict[str, tuple[int, int] | None] = {}
        for key, byte_range in wanted:
            # Of several parts of a value, the first one tells what the key is.
            parts.setdefault(key, _part(byte_range))
        told = list(parts.values())
        opened = await self._store.open_together(paths, True, told, fresh, to=completions())
        handles = {key: _there(handle) for key, handle in zip(keys, opened, strict=True)}
        reads = [
            (handle, *_extent(handle.size, byte_range))
            for key, byte_range in wanted
            if (handle := handles[key]) is not None
        ]
        found = iter(await _native.read_together(reads, True, to=completions()) if reads else [])
        return [None if handles[key] is None else next(found) for key, _ in wanted]

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """As `get`, for a thread that waits."""
        try:
            data = self._read_sync(key, byte_range)
        except STALE:
            data = self._read_sync(key, byte_range, fresh=True)
        if data is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def _read_sync(
        self, key: str, byte_range: ByteRequest | None, fresh: bool = False
    ) -> bytes | None:
        part = [_part(byte_range)]
        (opened,) = self._store.open_together([self._path(key)], True, part, fresh)
        handle = _there(opened)
        return None if handle is None else handle.read_at(*_extent(handle.size, byte_range))

    async def exists(self, key: str) -> bool:
        """Whether there is a value."""
        return await self._handle(key) is not None

    async def getsize(self, key: str) -> int:
        """Length of a value in bytes. Raises `FileNotFoundError` if there is none."""
        handle = await self._handle(key)
        if handle is None:
            raise FileNotFoundError(key)
        return handle.size

    async def getsize_prefix(self, prefix: str) -> int:
        """Length of all values below `prefix` in bytes."""
        return sum([entry["size"] for entry in await self._below(prefix)])

    async def _below(self, prefix: str) -> list[dict[str, Any]]:
        path = self._path(prefix).rstrip("/")
        entries = await self._store.find(path, "", to=completions())
        return sorted(entries, key=lambda entry: str(entry["name"]))

    async def list(self) -> AsyncIterator[str]:
        """All keys, in their order."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys below `prefix`, a path, in their order."""
        for entry in await self._below(prefix):
            yield entry["name"].removeprefix(self._top)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names in `prefix`, a path: of values, and of what has values below it."""
        path = self._path(prefix).rstrip("/")
        try:
            entries = await self._store.list(path, "", to=completions())
        except FileNotFoundError:
            return
        for name in sorted(entry["name"] for entry in entries):
            if name != path:
                yield name.rpartition("/")[2]

    async def set(self, key: str, value: Buffer) -> None:
        """Raises `ValueError`."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Raises `ValueError`."""
        self._check_writable()


def _again(url: str, options: dict[str, Any]) -> Store:
    return Store(url, **options)


def _there(opened: _native.Handle | Exception) -> _native.Handle | None:
    """What was opened; `None` for a key that is not there. Raises other errors."""
    if isinstance(opened, FileNotFoundError):
        return None
    if isinstance(opened, Exception):
        raise opened
    return opened


def _part(byte_range: ByteRequest | None) -> tuple[int, int] | None:
    """Where a part of a value begins and ends, as far as that is known without its length."""
    match byte_range:
        case None:
            return 0, _ENDLESS
        case RangeByteRequest(start, end):
            return start, max(start, end)
        case OffsetByteRequest(offset):
            return offset, _ENDLESS
    return None


#: What a read raises whose object is no longer what was told of its key: replaced, or gone.
STALE = (VersionChanged, FileNotFoundError)

#: Behind the end of every value.
_ENDLESS = (1 << 64) - 1


def _extent(size: int, byte_range: ByteRequest | None) -> tuple[int, int]:
    """Offset and length of a part of `size` bytes."""
    match byte_range:
        case None:
            return 0, size
        case RangeByteRequest(start, end):
            return start, max(0, min(end, size) - start)
        case OffsetByteRequest(offset):
            return offset, max(0, size - offset)
        case SuffixByteRequest(suffix):
            return max(0, size - suffix), min(suffix, size)
    raise TypeError(f"Unexpected byte_range, got {byte_range!r}")

"""A file as `io` knows it."""

from __future__ import annotations

import io
import os

from foreread import _native
from foreread._options import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from _typeshed import WriteableBuffer

#: What `peek` shows at least, in bytes: what `readline` looks at in one call.
PEEK_BYTES = 8192


def open(
    url: str | os.PathLike[str], mode: str = "rb", *, buffering: int = 0, **options: Any
) -> Any:
    """Opens the object that `url` names, at its current version: one request.

    `url` is `s3://BUCKET/KEY`, `gs://`, `az://`, `http://`, `https://`, `file:///PATH` or a path,
    also one of `pathlib`.
    Returns a `File`, or an `io.BufferedReader` over one if `buffering` is more than 1 (bytes): a
    program that reads a few bytes at a time calls less often then.

    Options: `endpoint` (s3fs: `endpoint_url`), `region`, `profile`, `anonymous` (`anon`), `key`,
    `secret`, `token`, `client_kwargs`; `memory` sets the budget of the process, as `configure`
    does; `share=False` keeps the process to an engine of its own. What is not given comes from
    where the storage's own tools take it.

    Raises `FileNotFoundError`, `PermissionError`, `TimeoutError` or another `OSError`, as the
    storage answers, after retries; `ValueError` for a URL that cannot be used or another mode than
    "rb"; `TypeError` for an unknown option.
    """
    if mode not in ("rb", "r", "br"):
        raise ValueError(f"mode {mode!r}: files are opened for reading bytes, 'rb'")
    parsed = parse(options, ("buffering",))
    url = os.fspath(url)
    store, path = _native.place(url)
    file = File(url, _native.Store(store, **parsed).open(path), parsed)
    return io.BufferedReader(file, buffering) if buffering > 1 else file


class File(io.RawIOBase):
    """An object that is open for reading, pinned to one version.

    Reads return all the bytes that were asked for, fewer only at the end. They are answered from
    memory where the engine has read ahead; threads may share a file for `read_at`, `read_into_at`
    and `read_ranges`, which leave the position alone.

    Reads raise `VersionChanged` when the object was replaced; other `OSError`s as the storage
    answers, after retries. Ctrl-C ends a wait. In a child of a fork, and where it was sent by
    `pickle`, a file reads the same version.
    """

    mode = "rb"

    def __init__(self, url: str, handle: _native.Handle, options: dict[str, Any]) -> None:
        super().__init__()
        #: The URL that was opened.
        self.name = url
        self._handle: _native.Handle | None = handle
        self._options = options
        self._size = handle.size
        self._position = 0

    def _open(self) -> _native.Handle:
        handle = self._handle
        if handle is None:
            raise ValueError("I/O operation on closed file.")
        return handle

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    @property
    def version(self) -> _native.Version:
        """The version that is read: `size`, `tag`, `modified_ns`."""
        return self._open().version

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; fewer only at the end, none beyond it."""
        handle = self._handle
        if handle is None:
            handle = self._open()
        return handle.read_at(offset, length)

    def read_into_at(self, offset: int, buffer: WriteableBuffer) -> int:
        """Fills `buffer` from `offset` on. Returns how many bytes: fewer only at the end."""
        return self._open().read_into(offset, buffer)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges, (offset, length) each, in the same order.

        All are in flight before any is waited for; adjacent ones share requests.
        """
        handle = self._open()
        return _native.read_together([(handle, offset, length) for offset, length in ranges])

    def read(self, size: int | None = -1, /) -> bytes:
        """`size` bytes from the position on, or all that are left."""
        handle = self._handle
        if handle is None:
            handle = self._open()
        position = self._position
        if size is None or size < 0:
            size = max(self._size - position, 0)
        data = handle.read_at(position, size)
        self._position = position + len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position on."""
        return self.read(-1)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fills `buffer` from the position on. Returns how many bytes: fewer only at the end."""
        count = self._open().read_into(self._position, buffer)
        self._position += count
        return count

    def readinto1(self, buffer: WriteableBuffer, /) -> int:
        """As `readinto`."""
        return self.readinto(buffer)

    def read1(self, size: int = -1, /) -> bytes:
        """As `read`, but without a size only as much as `peek` shows."""
        return self.read(PEEK_BYTES if size < 0 else size)

    def peek(self, size: int = 0, /) -> bytes:
        """Bytes from the position on, which stays: at least `size`, or 8192."""
        return self._open().read_at(self._position, max(size, PEEK_BYTES))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Moves the position, in bytes from the start (0), the position (1) or the end (2)."""
        self._open()
        if whence == 0:
            position = offset
        elif whence == 1:
            position = self._position + offset
        elif whence == 2:
            position = self._size + offset
        else:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if position < 0:
            raise ValueError(f"negative position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        """The position, in bytes."""
        self._open()
        return self._position

    def readable(self) -> bool:
        """True."""
        self._open()
        return True

    def seekable(self) -> bool:
        """True."""
        self._open()
        return True

    def close(self) -> None:
        """Gives the file up. What was read of it stays in memory as long as it fits."""
        super().close()
        self._handle = None

    def __reduce_ex__(self, protocol: object, /) -> tuple[Any, ...]:
        handle = self._open()
        return (_again, (self.name, handle.key, handle.version, self._options, self._position))

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"{self._size} bytes"
        return f"<foreread.File {self.name!r}, {state}>"


def _again(
    url: str, key: str, version: _native.Version, options: dict[str, Any], position: int
) -> File:
    """The file that was pickled, at its version. Sends nothing."""
    store, _ = _native.place(url)
    file = File(url, _native.Store(store, **options).open_version(key, version), options)
    file.seek(position)
    return file

"""The native module. Programs use `foreread` instead."""

import builtins
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from typing import Any, Literal, final, overload
from weakref import ReferenceType

from _typeshed import WriteableBuffer

__all__ = [
    "Allocator",
    "Completions",
    "Handle",
    "Region",
    "Store",
    "Trace",
    "Version",
    "VersionChanged",
    "View",
    "end_idle",
    "is_allocated",
    "place",
    "read_together",
    "set_cache",
    "set_memory",
    "size",
    "stats",
    "stop",
]

class VersionChanged(OSError):
    """The object is no longer the version that was opened (errno ESTALE)."""

@final
class Version:
    """The content of an object: two equal versions of one key have the same bytes."""

    def __new__(
        cls, size: int, tag: str | None = None, modified_ns: int | None = None
    ) -> Version: ...
    @property
    def size(self) -> int: ...
    @property
    def tag(self) -> str | None: ...
    @property
    def modified_ns(self) -> int | None: ...
    def token(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Completions:
    """The operations that one event loop waits for."""

    def __new__(cls, event_loop: ReferenceType[AbstractEventLoop]) -> Completions: ...
    def drain(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Handle:
    """An object pinned to one version."""

    @property
    def size(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def version(self) -> Version: ...
    @overload
    def read_at(self, offset: int, length: int, to: None = None) -> bytes: ...
    @overload
    def read_at(self, offset: int, length: int, to: Completions) -> Future[bytes]: ...
    def read_into(self, offset: int, buffer: WriteableBuffer) -> int: ...
    def map(self, budget: int) -> View: ...

@final
class Trace:
    """The reads of this process, which are written to a file."""

    def __new__(cls, path: str) -> Trace: ...
    def stop(self) -> tuple[int, int]: ...

@final
class Region:
    """Zeroed memory of which at most `budget` bytes are in memory; the others are in a file."""

    def __new__(
        cls, length: int, budget: int, spill: str | None = None, encrypted: bool = False
    ) -> Region: ...
    @property
    def address(self) -> int: ...
    def __len__(self) -> int: ...
    def advise(self, start: int, stop: int, advice: str) -> None: ...
    def discard(self, start: int, stop: int) -> None: ...
    def set_budget(self, budget: int) -> None: ...
    def stats(self) -> dict[str, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Allocator:
    """An allocator for the data of numpy's arrays."""

    def __new__(
        cls,
        numpy: object,
        budget: int,
        spill: str | None = None,
        encrypted: bool = False,
        kernel_faults: bool = True,
    ) -> Allocator: ...
    def set(self, handler: object = None) -> object: ...
    def take_refused(self) -> Exception | None: ...
    @property
    def kernel_faults(self) -> bool: ...
    def set_budget(self, budget: int) -> None: ...
    def stats(self) -> dict[str, int]: ...

@final
class View:
    """One version of an object as memory that is read when it is touched."""

    @property
    def address(self) -> int: ...
    def __len__(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Store:
    """A bucket, a container, a web server or a file system."""

    def __new__(
        cls,
        store: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        key: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        share: bool = True,
    ) -> Store: ...
    def connect(self) -> None: ...
    @overload
    def info(self, path: str, name: str, to: None = None) -> dict[str, Any]: ...
    @overload
    def info(self, path: str, name: str, to: Completions) -> Future[dict[str, Any]]: ...
    @overload
    def list(self, path: str, root: str, to: None = None) -> builtins.list[dict[str, Any]]: ...
    @overload
    def list(
        self, path: str, root: str, to: Completions
    ) -> Future[builtins.list[dict[str, Any]]]: ...
    @overload
    def find(
        self,
        path: str,
        root: str,
        directories: bool = False,
        depth: int | None = None,
        to: None = None,
    ) -> builtins.list[dict[str, Any]]: ...
    @overload
    def find(
        self,
        path: str,
        root: str,
        directories: bool = False,
        depth: int | None = None,
        *,
        to: Completions,
    ) -> Future[builtins.list[dict[str, Any]]]: ...
    @overload
    def open(self, path: str, fresh: bool = True, to: None = None) -> Handle: ...
    @overload
    def open(self, path: str, fresh: bool = True, *, to: Completions) -> Future[Handle]: ...
    @overload
    def open_together(
        self,
        paths: Sequence[str],
        returns_errors: Literal[False] = False,
        reads: Sequence[tuple[int, int] | None] | None = None,
        fresh: bool = False,
        to: None = None,
    ) -> builtins.list[Handle]: ...
    @overload
    def open_together(
        self,
        paths: Sequence[str],
        returns_errors: Literal[True],
        reads: Sequence[tuple[int, int] | None] | None = None,
        fresh: bool = False,
        to: None = None,
    ) -> builtins.list[Handle | Exception]: ...
    @overload
    def open_together(
        self,
        paths: Sequence[str],
        returns_errors: Literal[False] = False,
        reads: Sequence[tuple[int, int] | None] | None = None,
        fresh: bool = False,
        *,
        to: Completions,
    ) -> Future[builtins.list[Handle]]: ...
    @overload
    def open_together(
        self,
        paths: Sequence[str],
        returns_errors: Literal[True],
        reads: Sequence[tuple[int, int] | None] | None = None,
        fresh: bool = False,
        *,
        to: Completions,
    ) -> Future[builtins.list[Handle | Exception]]: ...
    def open_version(self, path: str, version: Version) -> Handle: ...
    @overload
    def expect(self, paths: Sequence[str], ahead: int | None = None, to: None = None) -> int: ...
    @overload
    def expect(
        self, paths: Sequence[str], ahead: int | None = None, *, to: Completions
    ) -> Future[int]: ...
    def expect_none(self) -> None: ...
    def forget(self) -> None: ...

def place(url: str) -> tuple[str, str]: ...
@overload
def read_together(
    reads: Sequence[tuple[Handle, int, int]],
    returns_errors: Literal[False] = False,
    to: None = None,
) -> list[bytes]: ...
@overload
def read_together(
    reads: Sequence[tuple[Handle, int, int]], returns_errors: Literal[True], to: None = None
) -> list[bytes | Exception]: ...
@overload
def read_together(
    reads: Sequence[tuple[Handle, int, int]],
    returns_errors: Literal[False] = False,
    *,
    to: Completions,
) -> Future[list[bytes]]: ...
@overload
def read_together(
    reads: Sequence[tuple[Handle, int, int]], returns_errors: Literal[True], to: Completions
) -> Future[list[bytes | Exception]]: ...
def is_allocated(address: int) -> bool: ...
def size(size: int | str) -> int: ...
def set_memory(memory: int | None = None) -> int: ...
def set_cache(
    folder: str | None,
    size: int | None = None,
    min_free: int | None = None,
    key_file: str | None = None,
    bypass: bool | None = None,
) -> None: ...
def end_idle(seconds: float) -> int: ...
def stats() -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]: ...
def stop() -> None: ...

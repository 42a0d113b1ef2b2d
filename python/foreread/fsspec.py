"""Storage as a file system of fsspec: pandas, xarray, Dask, pyarrow, DuckDB, zarr, Ray.

::

    fs = fsspec.filesystem("foreread", target_protocol="s3", memory="2GiB")
    pandas.read_parquet("foreread::s3://bucket/x.parquet")     # needs s3fs to be installed
    pyarrow.parquet.read_table("bucket/x.parquet", filesystem=fs)
    duckdb.register_filesystem(fs)
    zarr.storage.FsspecStore(ForereadFileSystem("s3", asynchronous=True), path="b/a.zarr")

Reading methods are this package's own: those that wait do so on the calling thread, those that are
awaited on the caller's loop; fsspec's thread is not started. Several ranges or files are in flight
at once. What writes goes to the target file system, which must be installed, and then what is
known of names is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from foreread import _get, _native, _options, _writes
from foreread._async import completions
from foreread._fsspec_file import ForereadFile
from foreread._native import VersionChanged
from foreread._ranges import Asked, asked, changed, checked, extent, placed, put, reads

__all__ = ["ForereadFile", "ForereadFileSystem", "Prefetch"]

#: fsspec's names of the protocols of one kind of storage, and ours.
SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "http": "http",
    "https": "https",
    "file": "file",
    "local": "file",
}

#: Those whose names begin with a bucket or a container.
BUCKETS = ("s3", "gs", "az")

#: Options that every file system of fsspec takes and that change nothing here.
IDLE = (
    "use_listings_cache",
    "listings_expiry_time",
    "max_paths",
    "skip_instance_cache",
    "default_block_size",
    "default_fill_cache",
    "default_cache_type",
    "use_ssl",
)

#: Arguments of `open` that describe another library's cache.
IDLE_OF_OPEN = (
    "block_size",
    "cache_type",
    "cache_options",
    "fill_cache",
    "autocommit",
    "size",
    "default_cache",
    "default_cache_type",
    "default_fill_cache",
)


class Prefetch:
    """Files that are fetched ahead of a program, in their order. See `prefetch`."""

    #: Those whose block has been entered and not been left, in this process.
    entered: ClassVar[set[Prefetch]] = set()

    #: While one is added, or the orders of a store are taken back.
    _changing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, stores: Iterable[tuple[_native.Store, dict[str, str]]], ahead: int | None
    ) -> None:
        self._stores = dict(stores)
        self._ahead = ahead
        #: How many of the files there are.
        self.count = 0

    def __enter__(self) -> Prefetch:
        with self._changing:
            self.entered.add(self)
        try:
            told = [
                store.expect(list(keys.values()), self._ahead)
                for store, keys in self._stores.items()
            ]
        except BaseException:
            # Those before the one that failed.
            self.__exit__()
            raise
        self.count = sum(told)
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            # Not so in a child of a fork in the block: the order is the parent's.
            if self not in self.entered:
                return
            self.entered.remove(self)
            for store in self._stores:
                # All orders of the store are taken back at once: by the last block.
                if not any(store in other._stores for other in self.entered):
                    store.expect_none()

    @classmethod
    def _forked(cls) -> None:
        cls.entered = set()
        cls._changing = threading.Lock()


os.register_at_fork(after_in_child=Prefetch._forked)


class ForereadFileSystem(AsyncFileSystem, ChainedFileSystem):  # type: ignore[misc]
    """Reads the files of another protocol through foreread.

    `target_protocol` is that protocol: `s3`, `gs`, `az`, `http`, `https` or `file`, in fsspec's
    spelling. Names are those that the target's own file system has (`bucket/key`). Without it,
    names are URLs.

    Options: those of `foreread.open`, which are s3fs's as well (`key`, `secret`, `token`, `anon`,
    `endpoint_url`, `client_kwargs`), and `memory`, the budget of the process. They may be given
    directly or as `target_options`. An unknown one raises `TypeError`.

    What is told of a name is at most a second old. Files that are open keep their version.
    """

    protocol: ClassVar[str | tuple[str, ...]] = "foreread"
    async_impl = True
    mirror_sync_methods = False
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        asynchronous: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        if target_protocol is not None and target_protocol not in SCHEMES:
            known = ", ".join(SCHEMES)
            raise ValueError(f"target_protocol {target_protocol!r} is unknown; known are {known}")
        self.asynchronous = asynchronous
        self.batch_size = batch_size
        self._event_loop = loop
        self._pid = os.getpid()
        # Not AsyncFileSystem's own, which would start fsspec's thread.
        AbstractFileSystem.__init__(self)
        self.target_protocol = target_protocol
        self._scheme = None if target_protocol is None else SCHEMES[target_protocol]
        if target_protocol is not None:
            # Tools route the target's URLs by it.
            self.protocol = ("foreread", target_protocol)  # type: ignore[misc]
        named = {**(target_options or {}), **options}
        named = {name: value for name, value in named.items() if name not in IDLE}
        besides = ("target_protocol", "target_options", "asynchronous", "loop", "batch_size")
        self._options = _options.parse(named, besides)
        # Callers use both the class's and the instance's.
        self._strip_protocol = self._stripped  # type: ignore[method-assign]
        self._stores: dict[str, _native.Store] = {}
        self._writer: AbstractFileSystem | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """A loop for what fsspec itself runs. The methods here use none."""
        return self._event_loop or get_loop()

    @property
    def fsid(self) -> str:
        """Equal for file systems that show the same files."""
        endpoint = self._options.get("endpoint", "")
        return f"foreread-{self.target_protocol}-{endpoint}"

    # Names.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = stringify_path(path)
        for prefix in ("foreread://", "foreread::"):
            path = path.removeprefix(prefix)
        scheme, found, rest = path.partition("://")
        if found and SCHEMES.get(scheme) in BUCKETS:
            path = rest
        elif found and SCHEMES.get(scheme) == "file":
            path = rest
        return path.rstrip("/") or ("/" if path.startswith("/") else "")

    def _stripped(self, path: Any) -> Any:
        """As `_strip_protocol`, for this target: another one's URL is an error, and without a
        target names are URLs."""
        if isinstance(path, list):
            return [self._stripped(each) for each in path]
        path = stringify_path(path)
        for prefix in ("foreread://", "foreread::"):
            path = path.removeprefix(prefix)
        scheme, found, _ = path.partition("://")
        if self._scheme is None:
            return path.rstrip("/")
        if found and scheme in SCHEMES and SCHEMES[scheme] != self._scheme:
            raise ValueError(
                f"{path} is no URL of {self.target_protocol}, which this file system reads"
            )
        path = type(self)._strip_protocol(path)
        return path.lstrip("/") if self._scheme in BUCKETS else path

    def _url(self, path: str) -> str:
        """The URL of a name."""
        if self._scheme is None or "://" in path:
            return path
        return f"{self._scheme}://{path}"

    def _place(self, path: str) -> tuple[_native.Store, str, str]:
        """The store of a stripped name, the path in it, and what names of the store begin with."""
        store, key = _native.place(self._url(path))
        found = self._stores.get(store)
        if found is None:
            found = self._stores[store] = _native.Store(store, **self._options)
        if self._scheme == "file" or store.startswith("/"):
            root = store.rstrip("/") + "/"
        else:
            root = path[: len(path) - len(key)] if key and path.endswith(key) else f"{path}/"
        return found, key, root

    def _is_top(self, path: str) -> bool:
        """Whether a stripped name is that of what has the buckets."""
        return not path and self._scheme in BUCKETS

    def _by_store(self, paths: Iterable[str]) -> Iterable[tuple[_native.Store, dict[str, str]]]:
        """The stores that names are in, and the path there of each name."""
        stores: dict[_native.Store, dict[str, str]] = {}
        for path in paths:
            store, key, _ = self._place(self._strip_protocol(path))
            stores.setdefault(store, {})[path] = key
        return stores.items()

    def unstrip_protocol(self, name: str) -> str:
        """The URL that leads to `name` by way of this file system."""
        name = self._strip_protocol(name)
        return f"foreread://{name}"

    # What waits on the calling thread.

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """`name`, `size` (bytes) and `type` ("file" or "directory") of a name; of a file `ETag`
        and `mtime` (seconds since 1970) where the storage says them.

        Raises `FileNotFoundError`, `PermissionError` or another `OSError`.
        """
        path = self._strip_protocol(path)
        if not path:
            return _top()
        store, key, _ = self._place(path)
        return store.info(key, path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory, or the entry of a file, sorted by name: as `info`, or names
        alone.

        Raises `FileNotFoundError` where there is neither. The buckets, which are above all
        names, are listed by the target's own file system, which must be installed.
        """
        path = self._strip_protocol(path)
        if self._is_top(path):
            # Its own cache has no age.
            self.target.invalidate_cache()
            buckets = self.target.ls("", detail=True)
            return _sorted([_bucket(entry["name"]) for entry in buckets], detail)
        store, key, root = self._place(path)
        return _sorted(store.list(key, root), detail)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        """All files below `path`, sorted: names, or with `detail` a dictionary of entries by name.

        With `withdirs` directories too, with `path` itself if it is one and no bucket.
        Directories are listed ahead, and those below `maxdepth` are not. Nothing there is no
        error; a bucket that does not exist is one.
        """
        _check_depth(maxdepth)
        path = self._strip_protocol(path)
        if self._is_top(path):
            return _found(self._below_buckets(maxdepth, withdirs), path, maxdepth, detail)
        try:
            store, key, root = self._place(path)
        except FileNotFoundError:
            return {} if detail else []
        return _found(store.find(key, root, withdirs, maxdepth), path, maxdepth, detail)

    def _below_buckets(self, maxdepth: int | None, withdirs: bool) -> list[dict[str, Any]]:
        """What `find` has of all buckets, with no bucket entered in vain."""
        entries: list[dict[str, Any]] = []
        for bucket in self.ls(""):
            if withdirs:
                entries.append(bucket)
            if maxdepth != 1:
                depth = None if maxdepth is None else maxdepth - 1
                entries.extend(self.find(bucket["name"], depth, withdirs, True).values())
        return entries

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is a file or a directory of this name."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Whether there is a file of this name."""
        try:
            return bool(self.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def isdir(self, path: str) -> bool:
        """Whether there is a directory of this name."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode not in ("rb", "r"):
            return self._write(path, mode, kwargs)
        unknown = [name for name in kwargs if name not in IDLE_OF_OPEN]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}; known are {', '.join(IDLE_OF_OPEN)}")
        file = self._file(path, self._handle(path))
        if isinstance(size := kwargs.get("block_size"), int) and size > 0:
            file.blocksize = size
        return file

    def _file(self, path: str, handle: _native.Handle) -> ForereadFile:
        return ForereadFile(self._url(path), handle, self._options, self, path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """The bytes of a file from `start` to before `end`; negative ones count from its end."""
        handle = self._handle(path)
        try:
            return handle.read_at(*extent(handle.size, start, end))
        except VersionChanged:
            handle = self._handle(path, fresh=True)
            return handle.read_at(*extent(handle.size, start, end))

    def _handle(self, path: str, fresh: bool = False) -> _native.Handle:
        store, key, _ = self._place(self._strip_protocol(path))
        return store.open(key, fresh)

    def head(self, path: str, size: int = 1024) -> bytes:
        """The first bytes of a file."""
        return self.cat_file(path, 0, size)

    def tail(self, path: str, size: int = 1024) -> bytes:
        """The last bytes of a file."""
        return self.cat_file(path, -size) if size > 0 else b""

    def read_block(
        self, fn: str, offset: int, length: int | None, delimiter: bytes | None = None
    ) -> bytes:
        """The bytes of a part of a file, from after a delimiter to after one, if it is given."""
        try:
            return bytes(super().read_block(fn, offset, length, delimiter))
        except VersionChanged:
            # Which is what the next `open` begins with.
            self._handle(fn, fresh=True)
            return bytes(super().read_block(fn, offset, length, delimiter))

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """The bytes of several ranges, of one file or several, in order.

        All are in flight before any is waited for. With `on_error="return"` the list has the
        exceptions of those that failed. Ranges of one file are of one version.
        """
        wanted = asked(paths, starts, ends)
        found = self._ranges(wanted, on_error)
        place, again = changed(wanted, found)
        if place:
            put(found, place, self._ranges(again, on_error, fresh=True))
        return checked(found, on_error)

    def _ranges(self, wanted: Asked, on_error: str, fresh: bool = False) -> list[Any]:
        """Bytes or errors; an error of opening is raised unless they are to be returned."""
        handles: dict[str, Any] = {}
        for store, keys in self._by_store(wanted[0]):
            opened: list[Any]
            if on_error == "return":
                opened = list(store.open_together(list(keys.values()), True, fresh=fresh))
            else:
                opened = list(store.open_together(list(keys.values()), fresh=fresh))
            handles.update(zip(keys, opened, strict=True))
        ranges, place = reads(wanted, handles)
        return placed(_native.read_together(ranges, True), place, wanted[0], handles)

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        """The bytes of a file, or of several as a dictionary by name, which are read at once."""
        paths = self.expand_path(path, recursive=recursive)
        if recursive:
            # Answered by the listings that found them.
            paths = [path for path in paths if not self.isdir(path)]
        stripped = self._strip_protocol(path)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == stripped:
            return self.cat_file(paths[0])
        how = "raise" if on_error == "raise" else "return"
        with _get.told(self, paths):
            data = self.cat_ranges(paths, None, None, on_error=how)
        found = dict(zip(paths, data, strict=True))
        if on_error == "omit":
            found = {name: data for name, data in found.items() if isinstance(data, bytes)}
        return found

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies files to local paths, several at a time; names and arguments are fsspec's.

        `callback` is told of the number of files and of each that is done, its branches of bytes,
        also by other threads, one at a time.
        """
        found = _get.pairs(self, rpath, _get.local(lpath), recursive, maxdepth=maxdepth, **kwargs)
        _get.get(self, found, callback)

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **kwargs: Any
    ) -> None:
        """Copies a file to the local path `lpath`. `callback` is told of its size and of each
        piece."""
        try:
            handle = self._handle(rpath)
        except FileNotFoundError:
            if not self.isdir(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)
            return
        callback = DEFAULT_CALLBACK if callback is None else callback
        if outfile is not None:
            _get.to_target(self, rpath, handle, outfile, callback)
        else:
            _get.to_name(self, rpath, handle, lpath, callback)

    def prefetch(self, paths: Iterable[str], ahead: int | str | None = None) -> Prefetch:
        """Tells that files will be read in this order, for as long as a `with` block lasts.

        ::

            with fs.prefetch(order, ahead="512MiB") as prefetch:
                for path in order:
                    fs.cat_file(path)

        Small files are fetched ahead of the program, the first ones on entering, the others as it
        comes to them: in the memory budget, in the place of what is not needed. On leaving, no
        more are fetched. `prefetch.count` says how many of the files there are.

        `ahead` is how much of them may be there before the program comes to it, in bytes or a text
        such as "512MiB", in each store; a file counts in whole pages of 4 KiB. An eighth of the
        memory budget and 1,024 files are the most. Without it, up to 128 files are ahead, as many
        as the program has had to wait for. Orders of programs that share an engine are followed
        side by side, up to 16 of them, each with its `ahead`.

        Raises `ValueError` where `ahead` is no size.
        """
        return Prefetch(self._by_store(paths), None if ahead is None else _native.size(ahead))

    def is_told(self) -> bool:
        """Whether the program is in a block of `prefetch`."""
        return bool(Prefetch.entered)

    def created(self, path: str) -> datetime.datetime:
        """As `modified`: storage does not tell them apart."""
        return self.modified(path)

    def modified(self, path: str) -> datetime.datetime:
        """When a file was written, in UTC.

        Raises `NotImplementedError` where the storage does not say.
        """
        seconds = self.info(path).get("mtime")
        if seconds is None:
            raise NotImplementedError(f"the storage does not say when {path} was written")
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)

    def ukey(self, path: str) -> str:
        """A text that differs between versions of a file."""
        return self._handle(path).version.token()

    def checksum(self, path: str) -> int:
        """A number that differs between versions of a file."""
        return int(self.ukey(path), 16)

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> Any:
        """The target's own."""
        return self.target.sign(self._strip_protocol(path), expiration, **kwargs)

    def stats(self) -> dict[str, Any]:
        """As `foreread.stats`."""
        from foreread import stats

        return stats()

    def invalidate_cache(self, path: str | None = None) -> None:
        """What was learned of names before is asked for again. Bytes stay: they belong to
        versions."""
        for store in self._stores.values():
            store.forget()

    # What is awaited.

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not path:
            return _top()
        store, key, _ = self._place(path)
        return await store.info(key, path, completions())

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if self._is_top(path):
            return await asyncio.to_thread(self.ls, path, detail)
        store, key, root = self._place(path)
        return _sorted(await store.list(key, root, completions()), detail)

    async def _find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        _check_depth(maxdepth)
        path = self._strip_protocol(path)
        if self._is_top(path):
            return await asyncio.to_thread(self.find, path, maxdepth, withdirs, detail)
        try:
            store, key, root = self._place(path)
        except FileNotFoundError:
            return {} if detail else []
        entries = await store.find(key, root, withdirs, maxdepth, to=completions())
        return _found(entries, path, maxdepth, detail)

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        try:
            await self._info(path)
        except FileNotFoundError:
            return False
        return True

    async def _isfile(self, path: str) -> bool:
        try:
            return bool((await self._info(path))["type"] == "file")
        except FileNotFoundError:
            return False

    async def _isdir(self, path: str) -> bool:
        try:
            return bool((await self._info(path))["type"] == "directory")
        except FileNotFoundError:
            return False

    async def _handle_async(self, path: str, fresh: bool = False) -> _native.Handle:
        store, key, _ = self._place(self._strip_protocol(path))
        return await store.open(key, fresh, to=completions())

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        handle = await self._handle_async(path)
        try:
            return await handle.read_at(*extent(handle.size, start, end), completions())
        except VersionChanged:
            handle = await self._handle_async(path, fresh=True)
            return await handle.read_at(*extent(handle.size, start, end), completions())

    async def _cat_ranges(
        self,
        paths: Sequence[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        wanted = asked(paths, starts, ends)
        found = await self._ranges_async(wanted, on_error)
        place, again = changed(wanted, found)
        if place:
            put(found, place, await self._ranges_async(again, on_error, fresh=True))
        return checked(found, on_error)

    async def _ranges_async(self, wanted: Asked, on_error: str, fresh: bool = False) -> list[Any]:
        handles: dict[str, Any] = {}
        for store, keys in self._by_store(wanted[0]):
            names, to = list(keys.values()), completions()
            opened: list[Any]
            if on_error == "return":
                opened = list(await store.open_together(names, True, fresh=fresh, to=to))
            else:
                opened = list(await store.open_together(names, fresh=fresh, to=to))
            handles.update(zip(keys, opened, strict=True))
        ranges, place = reads(wanted, handles)
        read = await _native.read_together(ranges, True, completions())
        return placed(read, place, wanted[0], handles)

    async def _get(self, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("batch_size", None)
        await asyncio.to_thread(self.get, rpath, lpath, *args, **kwargs)

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.get_file, rpath, lpath, **kwargs)

    # What writes.

    @property
    def target(self) -> AbstractFileSystem:
        """The target's own file system, which writes.

        Raises `ImportError` where it is not installed.
        """
        if self._writer is None:
            from fsspec import filesystem

            if self.target_protocol is None:
                raise ValueError("to write, the file system needs a target_protocol")
            options = _options.of_s3fs(self._options) if self._scheme == "s3" else {}
            self._writer = filesystem(self.target_protocol, **options)
        return self._writer

    def _write(self, path: str, mode: str, kwargs: dict[str, Any]) -> Any:
        file = self.target.open(path, mode, **kwargs)
        return _writes.telling(file, functools.partial(self._changed, path))

    def _changed(self, where: Any) -> None:
        """The target wrote to a name, or to several."""
        for path in where if isinstance(where, list | tuple) else [where]:
            # What has read there before may be another file system; nothing has where no place is,
            # such as that of a local file that is gone.
            with contextlib.suppress(OSError, ValueError):
                self._place(self._strip_protocol(path))
        self.invalidate_cache()
        self.target.invalidate_cache()


_writes.add(ForereadFileSystem)


def _top() -> dict[str, Any]:
    """The entry of the root, above all buckets."""
    return _bucket("")


def _bucket(name: str) -> dict[str, Any]:
    """The entry of a bucket."""
    return {"name": name, "size": 0, "type": "directory"}


def _sorted(entries: list[dict[str, Any]], detail: bool) -> list[Any]:
    entries.sort(key=lambda entry: entry["name"])
    return entries if detail else [entry["name"] for entry in entries]


def _check_depth(maxdepth: int | None) -> None:
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth is at least 1")


def _found(entries: list[dict[str, Any]], path: str, maxdepth: int | None, detail: bool) -> Any:
    if maxdepth is not None:
        top = path.rstrip("/").count("/") + (1 if path else 0)
        entries = [entry for entry in entries if entry["name"].count("/") - top < maxdepth]
    entries.sort(key=lambda entry: entry["name"])
    if detail:
        return {entry["name"]: entry for entry in entries}
    return [entry["name"] for entry in entries]

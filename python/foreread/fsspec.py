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
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from foreread import _native, _options
from foreread._async import completions
from foreread._file import File

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
IDLE_OF_OPEN = ("block_size", "cache_type", "cache_options", "fill_cache", "autocommit", "size")

#: Methods that write, which the target file system has, and which argument says where.
WRITES = {
    "pipe_file": (0, "path"),
    "put_file": (1, "rpath"),
    "rm_file": (0, "path"),
    "rm": (0, "path"),
    "cp_file": (1, "path2"),
    "mkdir": (0, "path"),
    "makedirs": (0, "path"),
    "rmdir": (0, "path"),
    "touch": (0, "path"),
}


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


class Prefetch:
    """Files that are fetched ahead of a program, in their order. See `prefetch`."""

    def __init__(
        self, stores: Iterable[tuple[_native.Store, dict[str, str]]], ahead: int | None
    ) -> None:
        self._stores = list(stores)
        self._ahead = ahead
        #: How many of the files there are.
        self.count = 0

    def __enter__(self) -> Prefetch:
        told = [store.expect(list(keys.values()), self._ahead) for store, keys in self._stores]
        self.count = sum(told)
        return self

    def __exit__(self, *_: object) -> None:
        for store, _keys in self._stores:
            store.expect_none()


def _again(
    fs: ForereadFileSystem, path: str, key: str, version: _native.Version, position: int
) -> ForereadFile:
    """The file that was pickled, at its version. Sends nothing."""
    store, _, _ = fs._place(path)
    file = fs._file(path, store.open_version(key, version))
    file.seek(position)
    return file


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
        if found and SCHEMES.get(scheme) in ("s3", "gs", "az"):
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
        return type(self)._strip_protocol(path)

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
        return not path and self._scheme in ("s3", "gs", "az")

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
        store, key, _ = self._place(path)
        return self._file(path, store.open(key, fresh=False))

    def _file(self, path: str, handle: _native.Handle) -> ForereadFile:
        return ForereadFile(self._url(path), handle, self._options, self, path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """The bytes of a file from `start` to before `end`; negative ones count from its end."""
        handle = self._handle(path)
        return handle.read_at(*_extent(handle.size, start, end))

    def _handle(self, path: str) -> _native.Handle:
        store, key, _ = self._place(self._strip_protocol(path))
        return store.open(key, fresh=False)

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
        exceptions of those that failed.
        """
        handles: dict[str, Any] = {}
        for store, keys in self._by_store(paths):
            opened: list[Any]
            if on_error == "return":
                opened = list(store.open_together(list(keys.values()), True))
            else:
                opened = list(store.open_together(list(keys.values())))
            handles.update(zip(keys, opened, strict=True))
        reads, place = _reads(paths, starts, ends, handles)
        if on_error == "return":
            read: list[Any] = list(_native.read_together(reads, True))
        else:
            read = list(_native.read_together(reads))
        return _placed(read, place, paths, handles)

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
        data = self.cat_ranges(paths, None, None, on_error=how)
        found = dict(zip(paths, data, strict=True))
        if on_error == "omit":
            found = {name: data for name, data in found.items() if isinstance(data, bytes)}
        return found

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **kwargs: Any
    ) -> None:
        """Copies a file to the local path `lpath`. `callback` is told of its size and of each
        piece."""
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self.open(rpath, "rb") as source:
            if callback is not None:
                callback.set_size(source.size)
            target = outfile
            if target is None:
                os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
                target = open(lpath, "wb")
            try:
                while piece := source.read(COPIED_BYTES):
                    written = target.write(piece)
                    if callback is not None:
                        callback.relative_update(written)
            finally:
                if outfile is None:
                    target.close()

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

    async def _handle_async(self, path: str) -> _native.Handle:
        store, key, _ = self._place(self._strip_protocol(path))
        return await store.open(key, fresh=False, to=completions())

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        handle = await self._handle_async(path)
        offset, length = _extent(handle.size, start, end)
        return await handle.read_at(offset, length, completions())

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
        handles: dict[str, Any] = {}
        for store, keys in self._by_store(paths):
            opened: list[Any]
            if on_error == "return":
                opened = list(
                    await store.open_together(list(keys.values()), True, to=completions())
                )
            else:
                opened = list(await store.open_together(list(keys.values()), to=completions()))
            handles.update(zip(keys, opened, strict=True))
        reads, place = _reads(paths, starts, ends, handles)
        if on_error == "return":
            read: list[Any] = list(await _native.read_together(reads, True, completions()))
        else:
            read = list(await _native.read_together(reads, to=completions()))
        return _placed(read, place, paths, handles)

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
        file.__class__ = _telling(type(file))  # type: ignore[arg-type]
        file.told = functools.partial(self._changed, path)
        return file

    def _changed(self, where: Any) -> None:
        """The target wrote to a name, or to several."""
        for path in where if isinstance(where, list | tuple) else [where]:
            # What has read there before may be another file system; nothing has where no place is,
            # such as that of a local file that is gone.
            with contextlib.suppress(OSError, ValueError):
                self._place(self._strip_protocol(path))
        self.invalidate_cache()
        self.target.invalidate_cache()


@functools.cache
def _telling(kind: type) -> type:
    """Files of a kind that tell that they were closed.

    A class, as a method of the file alone would make it refer to itself: one that is let go would
    be written by Python's collector, on whichever thread that runs.
    """

    class Telling(kind):  # type: ignore[misc]
        __slots__ = ()

        def close(self) -> None:
            super().close()
            self.told()

    Telling.__name__ = kind.__name__
    return Telling


#: Bytes that `get_file` copies at a time. Lower costs calls; higher costs memory.
COPIED_BYTES = 4 << 20


def _writing(name: str, position: int, keyword: str) -> Callable[..., Any]:
    def write(self: ForereadFileSystem, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.target, name)(*args, **kwargs)
        finally:
            self._changed(args[position] if len(args) > position else kwargs.get(keyword, []))

    write.__name__ = name
    write.__doc__ = f"The target's own `{name}`; then what is known of names is forgotten."
    return write


for _name, (_position, _keyword) in WRITES.items():
    setattr(ForereadFileSystem, _name, _writing(_name, _position, _keyword))


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


def _extent(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Where a range begins, and how long it is."""
    first = 0 if start is None else start
    last = size if end is None else end
    first = max(size + first, 0) if first < 0 else first
    last = size + last if last < 0 else last
    return first, max(last - first, 0)


def _reads(
    paths: Sequence[str],
    starts: int | Sequence[int | None] | None,
    ends: int | Sequence[int | None] | None,
    handles: dict[str, Any],
) -> tuple[list[tuple[_native.Handle, int, int]], list[int]]:
    """What is read, and of which of `paths` each is."""
    first = _each(starts, len(paths))
    last = _each(ends, len(paths))
    if not len(first) == len(last) == len(paths):
        raise ValueError("paths, starts and ends are equally many")
    reads, place = [], []
    for index, (path, start, end) in enumerate(zip(paths, first, last, strict=True)):
        handle = handles[path]
        if not isinstance(handle, BaseException):
            reads.append((handle, *_extent(handle.size, start, end)))
            place.append(index)
    return reads, place


def _each(given: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    return [given] * count if given is None or isinstance(given, int) else given


def _placed(
    read: Iterable[Any], place: list[int], paths: Sequence[str], handles: dict[str, Any]
) -> list[Any]:
    """What was read, or the error of the file, for each of `paths`."""
    out = [handles[path] for path in paths]
    for index, data in zip(place, read, strict=True):
        out[index] = data
    return out

"""Local-speed reads from slow storage: object stores, web servers and disks.

::

    import foreread

    with foreread.open("s3://bucket/key") as file:
        file.read_at(0, 4096)
        file.read_ranges([(0, 10), (1 << 20, 10)])

    fs = fsspec.filesystem("foreread", target_protocol="s3")   # pandas, pyarrow, DuckDB, zarr

    a = foreread.empty((10**6, 4096), "float32", budget="2GiB")   # an array larger than memory
    m = foreread.map("s3://bucket/big.npy")                       # an array over a remote object
    with foreread.allocate(budget="2GiB"):                        # whatever numpy makes here
        b = np.sqrt(m + 1)

Processes of one user share one engine for a store and credentials, and its memory budget
(`configure`): the first one serves it, the others read through it. Reads are requested ahead of
the program: forward, backward, strided, several streams in one file, files in the order of a
directory. The GIL is free while a thread waits.

A process may fork: the child reads on, at the same versions, through its parent's engine.
"""

from __future__ import annotations

import atexit as _atexit

from foreread import _native
from foreread._file import File, open
from foreread._native import Version, VersionChanged
from foreread._process import configure, stats, trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from foreread._allocate import Allocator, allocate
    from foreread._array import Array, empty, fill, from_file, map, zeros
    from foreread._async import AsyncFile, open_async
    from foreread._zarr import Store

__all__ = [
    "Allocator",
    "Array",
    "AsyncFile",
    "File",
    "Store",
    "Version",
    "VersionChanged",
    "allocate",
    "configure",
    "empty",
    "fill",
    "from_file",
    "map",
    "open",
    "open_async",
    "stats",
    "trace",
    "zeros",
]

#: Where names are that other packages are needed for: asyncio, numpy, zarr.
_LATER = {
    "AsyncFile": "_async",
    "open_async": "_async",
    "Allocator": "_allocate",
    "allocate": "_allocate",
    "Array": "_array",
    "empty": "_array",
    "fill": "_array",
    "from_file": "_array",
    "map": "_array",
    "zeros": "_array",
    "Store": "_zarr",
}

_atexit.register(_native.stop)


def __getattr__(name: str) -> object:
    # Found when they are first used, so that importing this package imports neither.
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'foreread' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"foreread.{module}"), name)
    globals()[name] = value
    return value

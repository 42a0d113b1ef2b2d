"""Rows of formats of arrays: chunks of zarr, HDF5 through xarray, safetensors, and references of
kerchunk.

Each client is used in the way that its own documents show, with its own defaults.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from foreread.bench.clients import (
    foreread_fs,
    obstore_fs,
    obstore_options,
    pyarrow_fs,
    s3fs_fs,
    s3fs_options,
)
from foreread.bench.row import Asks, Figures, Place, Row, figures

#: Shape of the arrays, in float32, and of a chunk: 1,024 of 256 KiB.
SHAPE, CHUNK = (1024, 256, 256), (16, 64, 64)

#: Tensors of a file of safetensors, and bytes of each.
TENSORS, TENSOR_BYTES = 64, 4 << 20

#: Every so many-th tensor is read by one that needs a part.
PART = 4


def _data() -> Any:
    import numpy as np

    random = np.random.default_rng(1)
    return random.random(SHAPE, dtype=np.float32)


def make_zarr(store: Asks, place: Place) -> None:
    """Writes an array in both versions of zarr's format, if they are not there."""
    import zarr

    versions: dict[str, Literal[2, 3]] = {"array.zarr": 3, "flat.zarr": 2}
    for name, version in versions.items():
        path = place.directory / name
        if not path.exists():
            # The older version has all chunks in one directory.
            array = zarr.create_array(
                str(path),
                shape=SHAPE,
                chunks=CHUNK,
                dtype="float32",
                compressors=None,
                zarr_format=version,
            )
            array[:] = _data()


def make_hdf5(store: Asks, place: Place) -> None:
    """Writes a file of HDF5 with three variables, if it is not there."""
    import h5py

    path = place.directory / "array.nc"
    if path.exists():
        return
    made = path.with_suffix(".part")
    with h5py.File(made, "w") as file:
        for nth, axis in enumerate(("time", "y", "x")):
            file.create_dataset(axis, data=range(SHAPE[nth])).make_scale(axis)
        for name in "tuv":
            values = _data() if name == "t" else _data()[::8]
            written = file.create_dataset(name, data=values, chunks=CHUNK)
            if name == "t":
                for nth, axis in enumerate(("time", "y", "x")):
                    written.dims[nth].attach_scale(file[axis])
    made.rename(path)


def make_references(store: Asks, place: Place) -> None:
    """Writes references to that file, if they are not there."""
    from kerchunk.hdf import SingleHdf5ToZarr

    make_hdf5(store, place)
    path = place.directory / "references.json"
    if not path.exists():
        with open(place.directory / "array.nc", "rb") as file:
            found = SingleHdf5ToZarr(file, "s3://testbed/array.nc", inline_threshold=0).translate()
        path.write_text(json.dumps(found))


def make_tensors(store: Asks, place: Place) -> None:
    """Writes a file of safetensors, if it is not there."""
    import numpy as np
    from safetensors.numpy import save_file

    path = place.directory / "model.safetensors"
    if not path.exists():
        random, count = np.random.default_rng(2), TENSOR_BYTES // 4
        tensors = {f"layer.{nth:03}": random.random(count, np.float32) for nth in range(TENSORS)}
        save_file(tensors, path)


def _timed(read: Callable[[], int]) -> Figures:
    start = time.monotonic()
    total = read()
    return figures(time.monotonic() - start, 1, total)


# zarr.


def _zarr_store(client: str, place: Place, name: str) -> Any:
    import zarr.storage

    if client == "foreread":
        import foreread

        return foreread.Store(f"s3://testbed/{name}", **place.options)
    if client == "obstore":
        from obstore.store import S3Store

        store = S3Store("testbed", prefix=name, **obstore_options(place))
        return zarr.storage.ObjectStore(store, read_only=True)
    import s3fs

    fs = s3fs.S3FileSystem(asynchronous=True, **s3fs_options(place))
    return zarr.storage.FsspecStore(fs, read_only=True, path=f"testbed/{name}")


def _zarr(client: str, place: Place, part: str) -> Figures:
    import zarr

    store = _zarr_store(client, place, "flat.zarr" if part == "flat" else "array.zarr")

    def read() -> int:
        array: Any = zarr.open_array(store, mode="r")
        if part in ("all", "flat"):
            return int(array[:].nbytes)
        # A slab after the other, as a loop over time does.
        return sum(array[at : at + CHUNK[0]].nbytes for at in range(0, SHAPE[0], CHUNK[0]))

    return _timed(read)


# HDF5.


def _file(client: str, place: Place, key: str) -> Any:
    if client == "pyarrow":
        return pyarrow_fs(place).open_input_file(f"testbed/{key}")
    make = {"foreread": foreread_fs, "s3fs": s3fs_fs, "obstore": obstore_fs}[client]
    return make(place).open(f"testbed/{key}", "rb")


def _hdf5(client: str, place: Place, part: str) -> Figures:
    import xarray as xr

    def read() -> int:
        with _file(client, place, "array.nc") as file:
            found = xr.open_dataset(file, engine="h5netcdf", phony_dims="access")["t"]
            if part == "all":
                return int(found.values.nbytes)
            # A place through all times: a chunk of each step.
            return (
                int(found[:, SHAPE[1] // 3, SHAPE[2] // 3].values.size) // CHUNK[0] * _chunk_bytes()
            )

    return _timed(read)


def _chunk_bytes() -> int:
    return 4 * CHUNK[0] * CHUNK[1] * CHUNK[2]


# References.


def _references(client: str, place: Place, part: str) -> Figures:
    import fsspec
    import zarr
    from fsspec.implementations.reference import ReferenceFileSystem

    references = json.loads((place.directory / "references.json").read_text())
    if client == "foreread":
        remote = {"s3": foreread_fs(place, asynchronous=True)}
    elif client == "obstore":
        remote = {"s3": obstore_fs(place, asynchronous=True)}
    else:
        remote = fsspec.filesystem("s3", asynchronous=True, **s3fs_options(place))
    fs = ReferenceFileSystem(references, fs=remote, asynchronous=True)
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")

    def read() -> int:
        array: Any = zarr.open_group(store, mode="r", zarr_format=2)["t"]
        if part == "all":
            return int(array[:].nbytes)
        return int(array[:, SHAPE[1] // 3, SHAPE[2] // 3].size) // CHUNK[0] * _chunk_bytes()

    return _timed(read)


# safetensors.


def _tensors(client: str, place: Place, part: str) -> Figures:
    import numpy as np

    def read() -> int:
        with _file(client, place, "model.safetensors") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            names = sorted(name for name in header if name != "__metadata__")
            total = 8 + length
            for name in names if part == "all" else names[::PART]:
                first, last = header[name]["data_offsets"]
                file.seek(8 + length + first)
                data = file.read(last - first)
                total += np.frombuffer(data, np.float32).nbytes
            return int(total)

    return _timed(read)


def _tensors_together(client: str, place: Place) -> Figures:
    """Of each client what asks for several ranges at once."""
    key = "testbed/model.safetensors"

    def several(extents: list[tuple[int, int]]) -> list[Any]:
        if client == "foreread":
            return list(opened.read_ranges(extents))
        starts = [at for at, _ in extents]
        if client == "obstore":
            lengths = [length for _, length in extents]
            found = opened.get_ranges("model.safetensors", starts=starts, lengths=lengths)
            return list(found)
        ends = [at + length for at, length in extents]
        return list(opened.cat_ranges([key] * len(extents), starts, ends))

    opened: Any
    if client == "foreread":
        opened = foreread_fs(place).open(key)
    elif client == "obstore":
        from obstore.store import S3Store

        opened = S3Store("testbed", **obstore_options(place))
    else:
        opened = s3fs_fs(place)

    def read() -> int:
        (length,) = struct.unpack("<Q", bytes(several([(0, 8)])[0]))
        header = json.loads(bytes(several([(8, length)])[0]))
        names = [name for name in sorted(header) if name != "__metadata__"][::PART]
        extents = [header[name]["data_offsets"] for name in names]
        wanted = [(8 + length + first, last - first) for first, last in extents]
        return 8 + int(length) + sum(len(data) for data in several(wanted))

    return _timed(read)


ALL = ("foreread", "s3fs", "obstore")


def _rows(
    name: str,
    texts: dict[str, str],
    run: Callable[..., Figures],
    make: Callable[[Asks, Place], None],
    needs: tuple[str, ...],
) -> dict[str, Row]:
    return {
        f"{name}-{part}": Row(
            text, "s", ALL, partial(run, part=part), make, needs=("fsspec", "numpy", *needs)
        )
        for part, text in texts.items()
    }


ROWS: dict[str, Row] = {
    **_rows(
        "zarr",
        {
            "all": "an array of 1,024 chunks of 256 KiB, at once",
            "flat": "the same with all chunks in one directory, as version 2 has them",
            "slabs": "the first one, 16 chunks after the other",
        },
        _zarr,
        make_zarr,
        ("zarr",),
    ),
    **_rows(
        "hdf5",
        {
            "all": "a variable of 256 MiB in such chunks, by xarray",
            "series": "a place of it at all times: 64 chunks",
        },
        _hdf5,
        make_hdf5,
        ("xarray", "h5netcdf", "h5py"),
    ),
    **_rows(
        "kerchunk",
        {
            "all": "that variable by references, by zarr",
            "series": "a place of it at all times, by references",
        },
        _references,
        make_references,
        ("kerchunk", "h5py", "zarr"),
    ),
    **_rows(
        "safetensors",
        {
            "all": "a header and 64 tensors of 4 MiB, in turn",
            "part": "a header and every fourth of these tensors, in turn",
        },
        _tensors,
        make_tensors,
        ("safetensors",),
    ),
    "safetensors-together": Row(
        "a header and every fourth of these tensors, together",
        "s",
        ALL,
        _tensors_together,
        make_tensors,
        needs=("fsspec", "numpy", "safetensors"),
    ),
}

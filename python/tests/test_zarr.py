"""`foreread.Store`: zarr's arrays and groups, their requests, and what is not there."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import foreread
from conftest import OBJECTS, Testbed

VALUES = np.arange(160_000, dtype="f4").reshape(400, 400)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    directory: Path = tmp_path_factory.mktemp("zarr")
    root = zarr.open_group(str(directory / "g.zarr"), mode="w")
    array = root.create_array("deep/values", shape=(400, 400), chunks=(50, 50), dtype="f4")
    array[:] = VALUES
    array.attrs["unit"] = "m"
    hollow = root.create_array("hollow", shape=(1000, 1000), chunks=(10, 10), dtype="i2")
    hollow[500:510, 500:510] = 7
    testbed = Testbed(OBJECTS, directory)
    yield testbed
    testbed.stop()


@pytest.fixture
def store(made: Testbed) -> foreread.Store:
    made.reset()
    return foreread.Store("s3://testbed/g.zarr", **made.options)


async def collected(keys: AsyncIterator[str]) -> list[str]:
    return [key async for key in keys]


def test_a_group_is_read(made: Testbed, store: foreread.Store) -> None:
    root = zarr.open(store, mode="r")
    array = root["deep/values"]
    assert array.attrs["unit"] == "m"
    made.reset()
    assert (array[:] == VALUES).all()
    counters = made.counters()
    assert counters["in_flight_max"] > 4, "chunks are in flight together"
    assert (array[60:70, 10:300] == VALUES[60:70, 10:300]).all()


def test_missing_chunks_cost_no_request_each(made: Testbed, store: foreread.Store) -> None:
    hollow = zarr.open_array(store, path="hollow", mode="r")
    made.reset()
    values = hollow[:]
    assert values.sum() == 700
    requests = made.requests()
    assert len(requests) < 500, f"{len(requests)} requests for 10,000 chunks in 100 directories"


@pytest.mark.parametrize("how", ["together", "parts", "waiting"])
def test_a_value_that_was_replaced_is_read_as_it_is(made: Testbed, how: str) -> None:
    keys = [f"{how}/{nth}" for nth in range(3)]
    for key in keys:
        made.set_object(f"replaced/{key}", 1_000, 1)
    store = foreread.Store("s3://testbed/replaced", **made.options)
    make = default_buffer_prototype()
    # What is in its directory is known from now on, and the bytes of no value.
    assert len(asyncio.run(collected(store.list_dir(how)))) == 3
    made.set_object(f"replaced/{keys[1]}", 1_500, 2)
    data = made.bytes_of(f"replaced/{keys[1]}")
    if how == "waiting":
        value = store.get_sync(keys[1])
        assert value is not None and value.to_bytes() == data
        return
    last = SuffixByteRequest(10)
    wanted: list[tuple[str, Any]] = [(keys[1], None), (keys[2], None)]
    wanted = [(keys[1], RangeByteRequest(0, 20)), (keys[1], last)] if how == "parts" else wanted
    found = asyncio.run(store.get_partial_values(make, wanted))
    expected = {"together": [data, made.bytes_of(f"replaced/{keys[2]}")]}
    expected["parts"] = [data[:20], data[-10:]]
    assert [value.to_bytes() for value in found if value is not None] == expected[how]


def test_parts_of_values(store: foreread.Store, made: Testbed) -> None:
    key = "deep/values/zarr.json"
    whole = made.bytes_of("g.zarr/" + key)
    wanted: list[tuple[str, Any]] = [
        (key, None),
        (key, RangeByteRequest(3, 10)),
        ("none", RangeByteRequest(0, 1)),
        (key, OffsetByteRequest(20)),
        (key, SuffixByteRequest(5)),
        (key, RangeByteRequest(5, 1 << 30)),
        (key, OffsetByteRequest(1 << 30)),
    ]

    async def read() -> list[Any]:
        return await store.get_partial_values(default_buffer_prototype(), wanted)

    found = [None if value is None else value.to_bytes() for value in asyncio.run(read())]
    assert found == [whole, whole[3:10], None, whole[20:], whole[-5:], whole[5:], b""]
    direct = store.get_sync(key, byte_range=SuffixByteRequest(5))
    assert direct is not None and direct.to_bytes() == whole[-5:]
    assert store.get_sync("none") is None


def test_names(store: foreread.Store) -> None:
    async def names() -> None:
        everything = await collected(store.list())
        assert len(everything) == len(set(everything))
        assert "zarr.json" in everything and "deep/values/c/0/0" in everything
        assert all(not key.startswith("g.zarr") for key in everything)
        assert await collected(store.list_dir("")) == ["deep", "hollow", "zarr.json"]
        assert await collected(store.list_dir("deep")) == ["values", "zarr.json"]
        assert await collected(store.list_dir("none")) == []
        below = await collected(store.list_prefix("deep/"))
        assert below == sorted(key for key in everything if key.startswith("deep/"))
        assert await store.exists("zarr.json")
        assert not await store.exists("deep/none") and not await store.exists("deep")
        assert await store.getsize("hollow/c/50/50") > 0
        with pytest.raises(FileNotFoundError):
            await store.getsize("none")
        sizes = [await store.getsize(key) for key in below]
        assert await store.getsize_prefix("deep") == sum(sizes)

    asyncio.run(names())


def test_stores_are_compared_and_sent(store: foreread.Store, made: Testbed) -> None:
    other = pickle.loads(pickle.dumps(store))
    assert other == store and other is not store
    assert store != foreread.Store("s3://testbed/other.zarr", **made.options)
    assert (zarr.open(other, mode="r")["deep/values"][7] == VALUES[7]).all()


def test_it_is_for_reading(store: foreread.Store, made: Testbed) -> None:
    assert store.read_only and not store.supports_writes
    # As zarr's own stores that are for reading.
    with pytest.raises(ValueError, match="opened in read-only mode"):
        asyncio.run(store.set("a", default_buffer_prototype().buffer.from_bytes(b"a")))
    with pytest.raises(ValueError, match="opened in read-only mode"):
        asyncio.run(store.delete("a"))
    with pytest.raises(NotImplementedError, match="with_read_only is not implemented"):
        store.with_read_only(False)
    assert store.with_read_only(True) == store
    with pytest.raises(TypeError, match="Unexpected byte_range, got"):
        asyncio.run(store.get("zarr.json", None, (0, 2)))
    with pytest.raises(TypeError, match="endpiont"):
        foreread.Store("s3://testbed/g.zarr", endpiont=made.endpoint)


def test_errors_are_not_missing_keys(store: foreread.Store, made: Testbed) -> None:
    made.set_object("g.zarr/refused", 1000)
    store._store.forget()
    made.faults("status=403,kind=get")
    try:
        with pytest.raises(PermissionError):
            store.get_sync("refused")
        with pytest.raises(PermissionError):
            asyncio.run(store.get("refused"))
    finally:
        made.faults()


def test_arrays_are_written_through_the_target(tmp_path: Path) -> None:
    from fsspec.implementations.local import LocalFileSystem
    from zarr.storage import FsspecStore

    from foreread.fsspec import ForereadFileSystem

    fs = ForereadFileSystem("file", asynchronous=True, skip_instance_cache=True)
    # As buckets do, it takes names in directories that there are none of.
    fs._writer = LocalFileSystem(auto_mkdir=True, skip_instance_cache=True)
    store = FsspecStore(fs, path=str(tmp_path / "w.zarr"))
    array = zarr.open_array(store, mode="w", shape=(400, 400), chunks=(50, 50), dtype="f4")
    array[:] = VALUES
    assert (zarr.open_array(store, mode="r")[:] == VALUES).all()
    # It is made anew, and nothing is left of what there was.
    array = zarr.open_array(store, mode="w", shape=5, dtype="i2")
    assert (array[:] == 0).all()
    array[:] = 7
    assert (zarr.open_array(str(tmp_path / "w.zarr"), mode="r")[:] == 7).all()
    assert fs.find(str(tmp_path / "w.zarr")) == [
        str(tmp_path / "w.zarr" / name) for name in ("c/0", "zarr.json")
    ]

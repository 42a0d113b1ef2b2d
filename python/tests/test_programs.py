"""Programs of other projects, on files that they wrote themselves: the same results as from
the local file, and what the storage is asked for.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import foreread
from conftest import Testbed

ROWS = 300_000

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class Data:
    """Files in a directory, and a testbed that has them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        random = np.random.default_rng(7)
        self.frame = pandas.DataFrame(
            {
                "key": np.arange(ROWS),
                "group": random.integers(0, 10, ROWS),
                "value": random.random(ROWS),
                "text": random.integers(0, 1 << 40, ROWS).astype(str),
            }
        )
        for part in range(3):
            path = directory / "table" / f"part={part}" / "data.parquet"
            path.parent.mkdir(parents=True)
            self.frame[part::3].to_parquet(path, index=False, row_group_size=20_000)
        self.frame.to_csv(directory / "table.csv", index=False)
        self.array = random.random((300, 1000)).astype(np.float32)
        np.save(directory / "array.npy", self.array)
        with tarfile.open(directory / "files.tar", "w") as tar:
            for name in range(50):
                member = tarfile.TarInfo(f"member-{name}")
                member.size = 10_000 + name
                tar.addfile(member, io.BytesIO(bytes([name]) * member.size))
        with zipfile.ZipFile(directory / "files.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in range(50):
                archive.writestr(f"member-{name}", bytes([name]) * 10_000)
        self.testbed = Testbed({}, directory)
        self.options = self.testbed.options

    @property
    def fs(self) -> Any:
        return fsspec.filesystem("foreread", target_protocol="s3", **self.options)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    made = Data(tmp_path_factory.mktemp("data"))
    yield made
    made.testbed.stop()


@pytest.fixture(autouse=True)
def _counters(data: Data) -> None:
    data.testbed.reset()


def test_columns_are_fetched_alone_and_ahead(data: Data) -> None:
    from pyarrow import dataset

    random = np.random.default_rng(11)
    frame = pandas.DataFrame({name: random.random(800_000) for name in ("a", "b", "c", "d")})
    path = data.directory / "columns.parquet"
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, path, row_group_size=80_000, use_dictionary=False)
    about = pq.read_metadata(path)
    groups = [about.row_group(nth) for nth in range(about.num_row_groups)]

    source = dataset.dataset("testbed/columns.parquet", filesystem=data.fs, format="parquet")
    data.testbed.reset()
    read = source.to_table(columns=["a", "c"])
    assert read.equals(table.select(["a", "c"]))
    counters = data.testbed.counters()
    needed = sum(group.column(nth).total_compressed_size for group in groups for nth in (0, 2))
    assert counters["object_bytes_sent"] <= 1.1 * needed
    # Arrow asks a file of Python for one piece after the other.
    assert counters["in_flight_max"] > 2

    # A row by its place: one group, and no other.
    data.testbed.reset()
    file = pq.ParquetFile("testbed/columns.parquet", filesystem=data.fs)
    data.testbed.reset()
    assert file.read_row_group(5, columns=["b", "d"]).num_rows == 80_000
    needed = sum(groups[5].column(nth).total_compressed_size for nth in (1, 3))
    assert data.testbed.counters()["object_bytes_sent"] <= 1.1 * needed


def test_pandas_reads_parquet(data: Data) -> None:
    url = "foreread::s3://testbed/table/part=1/data.parquet"
    frame = pandas.read_parquet(url, storage_options={"foreread": data.options})
    expected = data.frame[1::3].reset_index(drop=True)
    pandas.testing.assert_frame_equal(frame, expected)
    size = (data.directory / "table/part=1/data.parquet").stat().st_size
    assert data.testbed.counters()["object_bytes_sent"] <= size * 1.05


def test_pandas_reads_csv(data: Data) -> None:
    with data.fs.open("testbed/table.csv", "rb") as file:
        frame = pandas.read_csv(file, dtype={"text": str})
    pandas.testing.assert_frame_equal(frame, data.frame)
    size = (data.directory / "table.csv").stat().st_size
    assert data.testbed.counters()["object_bytes_sent"] <= size * 1.05


def test_pyarrow_reads_columns(data: Data) -> None:
    foreread.configure(memory=foreread.configure())
    data.fs.invalidate_cache()
    table = pq.read_table(
        "testbed/table/part=2/data.parquet", columns=["value"], filesystem=data.fs
    )
    assert table["value"].to_pylist() == data.frame["value"][2::3].to_list()
    metadata = pq.read_metadata(data.directory / "table/part=2/data.parquet")
    column = sum(
        metadata.row_group(group).column(2).total_compressed_size
        for group in range(metadata.num_row_groups)
    )
    # The footer, and what lies between two columns that are asked for together.
    assert data.testbed.counters()["object_bytes_sent"] <= column * 1.05 + (128 << 10)


def test_pyarrow_reads_a_dataset(data: Data) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    table = dataset.dataset(
        "testbed/table", filesystem=data.fs, partitioning="hive", format="parquet"
    ).to_table(columns=["key", "part"])
    keys = table.to_pandas().sort_values("key")
    assert keys["key"].to_list() == list(range(ROWS))
    assert keys["part"].to_list()[:6] == [0, 1, 2, 0, 1, 2]


def test_duckdb_aggregates(data: Data) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register_filesystem(data.fs)
    found = connection.execute(
        'select "group", count(*), sum(value) from '
        "read_parquet('foreread://testbed/table/*/data.parquet') group by 1 order by 1"
    ).fetchall()
    expected = data.frame.groupby("group")["value"].agg(["count", "sum"])
    assert [(group, count) for group, count, _ in found] == list(expected["count"].items())
    assert [total for _, _, total in found] == pytest.approx(expected["sum"].to_list())


def test_dask_reads_parquet(data: Data) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    frame = dataframe.read_parquet(
        "foreread://testbed/table/",
        columns=["value"],
        storage_options={"target_protocol": "s3", **data.options},
    )
    assert frame["value"].sum().compute() == pytest.approx(data.frame["value"].sum())
    # It opens each file itself, to count the rows of its footer.
    assert len(frame) == ROWS


def test_zarr_reads_chunks(data: Data) -> None:
    zarr = pytest.importorskip("zarr")
    from zarr.storage import FsspecStore

    from foreread.fsspec import ForereadFileSystem

    local = zarr.open_array(
        str(data.directory / "a.zarr"), mode="w", shape=(400, 400), chunks=(50, 50), dtype="f4"
    )
    local[:] = np.arange(160_000, dtype="f4").reshape(400, 400)
    fs = ForereadFileSystem("s3", asynchronous=True, **data.options)
    remote = zarr.open_array(FsspecStore(fs, read_only=True, path="testbed/a.zarr"), mode="r")
    data.testbed.reset()
    assert (remote[:] == local[:]).all()
    counters = data.testbed.counters()
    assert counters["in_flight_max"] > 4, "chunks are in flight together"
    assert (remote[60:70, 10:300] == local[60:70, 10:300]).all()


def test_xarray_reads_hdf5(data: Data) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    values = np.arange(120_000, dtype="f4").reshape(20, 60, 100)
    made = xarray.Dataset({"t": (("time", "y", "x"), values)})
    encoding = {"t": {"chunksizes": (1, 60, 100), "zlib": True}}
    made.to_netcdf(data.directory / "a.nc", engine="h5netcdf", encoding=encoding)
    data.fs.invalidate_cache()
    with data.fs.open("testbed/a.nc") as file:
        found = xarray.open_dataset(file, engine="h5netcdf")
        assert (found["t"][3:5].values == values[3:5]).all()
        assert (found["t"].values == values).all()


def test_pillow_opens_an_image(data: Data) -> None:
    image = pytest.importorskip("PIL.Image")
    image.linear_gradient("L").save(data.directory / "image.png")
    data.fs.invalidate_cache()
    with data.fs.open("testbed/image.png") as file:
        found = image.open(file)
        assert found.tobytes() == image.linear_gradient("L").tobytes()


def test_numpy_loads(data: Data) -> None:
    with foreread.open("s3://testbed/array.npy", **data.options) as file:
        assert (np.load(file) == data.array).all()


def test_archives_are_read(data: Data) -> None:
    with foreread.open("s3://testbed/files.tar", **data.options) as file:
        with tarfile.open(fileobj=file) as tar:
            member = tar.extractfile("member-17")
            assert member is not None
            assert member.read() == bytes([17]) * 10_017
    with foreread.open("s3://testbed/files.zip", **data.options) as file:
        with zipfile.ZipFile(file) as archive:
            assert archive.read("member-49") == bytes([49]) * 10_000
            assert archive.testzip() is None


def test_headers_of_an_archive_come_with_what_lies_between(data: Data) -> None:
    sizes = (15_000, 16_000, 20_000, 32_500)
    for size in sizes:
        with tarfile.open(data.directory / f"alike-{size}.tar", "w") as tar:
            for name in range(1_000):
                member = tarfile.TarInfo(f"member-{name}")
                member.size = size
                tar.addfile(member, io.BytesIO(bytes(size)))
    # So far away that a gap costs less than a request does, also on a busy machine.
    testbed = Testbed({}, data.directory, first_byte="30ms")
    try:
        options = {"share": False, "memory": "256MiB", **testbed.options}
        fs = fsspec.filesystem("foreread", target_protocol="s3", **options)
        for size in sizes:
            testbed.reset()
            before = fs.stats()
            with fs.open(f"testbed/alike-{size}.tar") as file, tarfile.open(fileobj=file) as tar:
                assert len(tar.getnames()) == 1_000
            counters, after = testbed.counters(), fs.stats()
            # Gaps may look dear for a while, and some parts are asked for twice.
            assert counters["get"] <= 500, size
            most = 1_100 * (size + 1_024)
            assert after["fetched_bytes"] - before["fetched_bytes"] <= most, size
            hedged = after["requests_hedged"] - before["requests_hedged"]
            assert counters["object_bytes_sent"] <= most + hedged * (8 << 20), size
    finally:
        testbed.stop()


def test_a_small_archive_that_is_read_in_no_order_comes_whole(data: Data) -> None:
    random = np.random.default_rng(5)
    path = data.directory / "scattered.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in range(600):
            archive.writestr(f"member-{name}", random.bytes(int(random.integers(2_000, 18_000))))
    # With a budget of its own, of which other tests have read nothing.
    script = """
import json, random, sys, zipfile, fsspec
options = json.loads(sys.argv[1])
fs = fsspec.filesystem("foreread", target_protocol="s3", share=False, memory="256MiB", **options)
with fs.open("testbed/scattered.zip") as file, zipfile.ZipFile(file) as archive:
    for name in random.Random(5).sample(archive.namelist(), 300):
        assert len(archive.read(name)) >= 2_000
"""
    # So far away that reads wait for first bytes, also of a busy machine.
    testbed = Testbed({}, data.directory, first_byte="30ms")
    try:
        command = [sys.executable, "-c", script, json.dumps(testbed.options)]
        subprocess.run(command, check=True, timeout=60)
        counters = testbed.counters()
    finally:
        testbed.stop()
    assert counters["get"] <= 150
    # What is there when the rest comes is fetched again where that saves requests.
    assert counters["object_bytes_sent"] <= 1.3 * path.stat().st_size


def test_lines_are_read(data: Data) -> None:
    (data.directory / "lines.jsonl").write_text(
        "".join(json.dumps({"n": n}) + "\n" for n in range(10_000))
    )
    with foreread.open("s3://testbed/lines.jsonl", buffering=1 << 16, **data.options) as file:
        assert [json.loads(line)["n"] for line in file] == list(range(10_000))


def test_a_program_ends_while_arrow_still_closes_files(data: Data) -> None:
    script = """
import json, sys, fsspec, pyarrow.dataset as ds
fs = fsspec.filesystem("foreread", target_protocol="s3", share=False, **json.loads(sys.argv[1]))
print(ds.dataset("testbed/table", filesystem=fs, format="parquet").to_table().num_rows)
"""
    command = [sys.executable, "-c", script, json.dumps(data.options)]
    for _ in range(8):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout) == (0, f"{ROWS}\n"), ended.stderr

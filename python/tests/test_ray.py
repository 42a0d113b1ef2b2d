"""Ray's workers read through the file system that they are sent. Needs `ray[data]`, which is
large: it is not among the requirements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Testbed
from foreread.fsspec import ForereadFileSystem

ray = pytest.importorskip("ray")
pd = pytest.importorskip("pandas")

FILES, ROWS = 6, 20_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    directory: Path = tmp_path_factory.mktemp("ray")
    (directory / "table").mkdir()
    (directory / "images").mkdir()
    for nth in range(FILES):
        keys = np.arange(ROWS) + nth * ROWS
        pd.DataFrame({"key": keys, "value": keys % 7}).to_parquet(
            directory / f"table/{nth}.parquet"
        )
    for nth in range(50):
        (directory / f"images/{nth:02}").write_bytes(bytes([nth]) * 5000)
    testbed = Testbed({}, directory)
    ray.init(num_cpus=2, object_store_memory=200 << 20, include_dashboard=False)
    yield testbed
    ray.shutdown()
    testbed.stop()


@pytest.fixture
def fs(made: Testbed) -> Any:
    made.reset()
    return ForereadFileSystem("s3", **made.options)


def test_parquet(made: Testbed, fs: Any) -> None:
    table = ray.data.read_parquet("testbed/table/", filesystem=fs)
    assert table.sum("key") == sum(range(FILES * ROWS))
    counters = made.counters()
    # Ray could ask the storage itself; what workers read is asked for here.
    assert counters["get"] >= FILES and counters["bytes_sent"] > 100_000


def test_binary_files(made: Testbed, fs: Any) -> None:
    files = ray.data.read_binary_files("testbed/images/", filesystem=fs, include_paths=True)
    found = {row["path"]: row["bytes"] for row in files.iter_rows()}
    assert {name: data[:1] for name, data in found.items()} == {
        f"testbed/images/{nth:02}": bytes([nth]) for nth in range(50)
    }
    # The workers read through one engine, which fetches ahead.
    assert 50 <= made.counters()["get"] <= 100


def test_tasks_read_through_the_driver(made: Testbed, fs: Any) -> None:
    names = [f"testbed/images/{nth:02}" for nth in range(50)]
    assert fs.exists(names[0])

    def read(fs: Any, name: str) -> tuple[int, int]:
        import foreread

        return len(fs.cat_file(name)), foreread.stats()["joins"]

    task = ray.remote(read)
    for epoch in range(2):
        assert ray.get([task.remote(fs, name) for name in names]) == [(5000, 1)] * 50
        if epoch == 0:
            gets = made.counters()["get"]
    assert made.counters()["get"] == gets <= 100

"""`foreread.torch.Dataset`: batches in flight together, and workers of every start method."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator

import pytest

import foreread.torch
from conftest import Testbed

COUNT = 60


@pytest.fixture(scope="module")
def made() -> Iterator[Testbed]:
    testbed = Testbed({f"d{nth % 3}/f{nth:03}": str(1000 + nth) for nth in range(COUNT)})
    yield testbed
    testbed.stop()


@pytest.fixture
def samples(made: Testbed) -> foreread.torch.Dataset:
    made.reset()
    urls = [made.url(f"d{nth % 3}/f{nth:03}") for nth in range(COUNT)]
    return foreread.torch.Dataset(urls, memory="64MiB", **made.options)


def test_items_are_files(made: Testbed, samples: foreread.torch.Dataset) -> None:
    assert len(samples) == COUNT
    assert samples[7] == made.bytes_of("d1/f007")
    assert samples[-1] == made.bytes_of("d2/f059")
    with pytest.raises(IndexError):
        samples[COUNT]
    samples.transform = len
    assert samples[7] == 1007


def test_the_files_of_a_batch_are_in_flight_together(
    made: Testbed, samples: foreread.torch.Dataset
) -> None:
    samples[0]
    made.reset()
    batch = samples.__getitems__([5, 40, 13, 5])
    assert batch == [samples[5], samples[40], samples[13], samples[5]]
    made.reset()
    samples.__getitems__(range(10, COUNT))
    assert made.counters()["in_flight_max"] > 4


def test_a_file_that_was_replaced_is_read_as_it_is(made: Testbed) -> None:
    keys = [f"replaced/{nth}" for nth in range(3)]
    for key in keys:
        made.set_object(key, 1_000, 1)
    samples = foreread.torch.Dataset([made.url(key) for key in keys], **made.options)
    # Names are known from now on, and no bytes. Debian's environment of PyTorch has no fsspec.
    fsspec = pytest.importorskip("foreread.fsspec")
    fs = fsspec.ForereadFileSystem("s3", skip_instance_cache=True, **made.options)
    assert [entry["size"] for entry in fs.ls("testbed/replaced")] == [1_000] * 3
    made.set_object(keys[1], 1_500, 2)
    batch = samples.__getitems__([2, 1, 1])
    assert batch == [made.bytes_of(keys[at]) for at in (2, 1, 1)]
    assert list(map(len, batch)) == [1_000, 1_500, 1_500]


def total(samples: foreread.torch.Dataset, indices: list[int]) -> int:
    return sum(map(len, samples.__getitems__(indices)))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers(samples: foreread.torch.Dataset, method: str) -> None:
    # The parent has an engine already.
    samples[0]
    with multiprocessing.get_context(method).Pool(3) as pool:
        parts = [(samples, list(range(part, COUNT, 3))) for part in range(3)]
        totals = pool.starmap(total, parts)
    assert sum(totals) == sum(1000 + nth for nth in range(COUNT))


def test_it_is_sent_with_its_options(samples: foreread.torch.Dataset) -> None:
    other = pickle.loads(pickle.dumps(samples))
    assert other.urls == samples.urls and other[3] == samples[3]


def test_stores_may_be_mixed(made: Testbed, tmp_path_factory: pytest.TempPathFactory) -> None:
    local = tmp_path_factory.mktemp("local") / "file"
    local.write_bytes(b"local")
    samples = foreread.torch.Dataset([made.url("d0/f000"), local], **made.options)
    assert samples.__getitems__([1, 0]) == [b"local", made.bytes_of("d0/f000")]


def test_a_file_that_is_not_there(made: Testbed) -> None:
    samples = foreread.torch.Dataset([made.url("none")], **made.options)
    with pytest.raises(FileNotFoundError):
        samples[0]


def test_a_loader(samples: foreread.torch.Dataset) -> None:
    data = pytest.importorskip("torch.utils.data")
    assert isinstance(samples, data.Dataset)
    loader = data.DataLoader(samples, batch_size=7, num_workers=2, collate_fn=list)
    assert sorted(len(item) for batch in loader for item in batch) == [
        1000 + nth for nth in range(COUNT)
    ]

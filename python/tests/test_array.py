"""Arrays that are larger than their budget, and arrays over objects."""

from __future__ import annotations

import copy
import functools
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreread
from conftest import Testbed

#: Elements of eight bytes in arrays of these tests: 32 MiB, with a budget of a quarter.
COUNT = 4 << 20
BUDGET = "8MiB"


@pytest.fixture(scope="module")
def array() -> Iterator[foreread.Array]:
    made = foreread.empty(COUNT, np.int64, budget=BUDGET)
    made[:] = np.arange(COUNT)[::-1]
    yield made


def test_an_array_is_larger_than_its_budget() -> None:
    array = foreread.empty((COUNT // 1024, 1024), np.int64, budget=BUDGET)
    assert (array.shape, array.dtype, array.flags.writeable) == ((4096, 1024), np.int64, True)
    assert not array.any()
    array[:] = np.arange(COUNT).reshape(array.shape)
    assert (array == np.arange(COUNT).reshape(array.shape)).all()
    assert array.sum() == COUNT * (COUNT - 1) // 2
    assert (array[::7, 5] == np.arange(5, COUNT, 1024)[::7]).all()
    array.reshape(-1)[::-1].sort()
    assert array[0, 0] == COUNT - 1
    region = array.region
    assert region is not None
    stats = region.stats()
    assert stats["pages_budget"] == 2048
    assert stats["pages_mapped"] <= 2048
    assert stats["pages_written"] >= COUNT * 8 // 4096 - 2048
    assert stats["pages_failed"] == 0


def test_calculations_are_numpys(array: foreread.Array) -> None:
    ordinary = np.arange(COUNT)[::-1]
    assert (np.cumsum(array) == np.cumsum(ordinary)).all()
    matrix = array.reshape(2048, 2048)
    assert np.allclose(
        matrix[:64].astype(float) @ matrix[:, :8].astype(float),
        ordinary.reshape(2048, 2048)[:64].astype(float)
        @ ordinary.reshape(2048, 2048)[:, :8].astype(float),
    )
    assert (array + 1 == ordinary + 1).all()
    assert np.median(array) == np.median(ordinary)


def test_what_numpy_makes_of_it_lies_elsewhere(array: foreread.Array) -> None:
    assert array[10:20].region is array.region
    assert array.reshape(2, -1).region is array.region
    assert (array[:10] + 1).region is None
    assert array[:10].copy().region is None
    assert pickle.loads(pickle.dumps(array[:10])).tolist() == array[:10].tolist()


def test_pandas_and_a_region(array: foreread.Array) -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(array)
    assert series.iloc[0] == COUNT - 1
    assert series.sum() == COUNT * (COUNT - 1) // 2


def test_files_are_written_from_it(array: foreread.Array, tmp_path: Path) -> None:
    np.save(tmp_path / "saved.npy", array)
    assert (np.load(tmp_path / "saved.npy") == np.arange(COUNT)[::-1]).all()
    array[5:50].tofile(tmp_path / "part")
    assert (np.fromfile(tmp_path / "part", np.int64) == np.arange(COUNT)[::-1][5:50]).all()


def test_advice_and_discard() -> None:
    array = foreread.zeros(COUNT, np.int64, budget=BUDGET)
    array[:] = 7
    region = array.region
    assert region is not None and not isinstance(region, foreread._native.View)
    assert len(region) == COUNT * 8
    region.advise(0, len(region), "sequential")
    region.discard(0, 1 << 20)
    assert not array[: 1 << 17].any()
    assert (array[1 << 17 :] == 7).all()
    region.set_budget(16 << 20)
    array.sum()
    assert region.stats()["pages_budget"] == 4096
    with pytest.raises(ValueError, match="known are normal"):
        region.advise(0, 1, "often")
    with pytest.raises(ValueError, match="begins before"):
        region.discard(2, 1)


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        foreread.empty(0, budget=BUDGET)
    with pytest.raises(ValueError, match="budget"):
        foreread.empty(10, budget=1000)
    with pytest.raises(ValueError, match="objects"):
        foreread.empty(10, object, budget=BUDGET)
    with pytest.raises(OSError, match="spill file"):
        foreread.empty(10, budget=BUDGET, spill="/nowhere/at/all")


def test_a_shape_has_any_integers(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(24)))
    for shape, axes in (
        (np.int64(6), (6,)),
        ((np.int32(2), np.uint64(3)), (2, 3)),
        (np.array([2, 3]), (2, 3)),
        ([6], (6,)),
    ):
        array = foreread.empty(shape, "u4", budget=BUDGET)  # type: ignore[arg-type]
        assert (array.shape, array.any()) == (axes, False)
        mapped = foreread.map(path, "u4", shape)  # type: ignore[arg-type]
        assert (mapped.shape, mapped.tobytes()) == (axes, bytes(range(24)))
    with pytest.raises(TypeError):
        foreread.empty(1.5, budget=BUDGET)  # type: ignore[arg-type]


def test_a_shape_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(10))
    for wrong in (-1, (2, -3), (-2, -3)):
        with pytest.raises(ValueError, match="not negative"):
            foreread.empty(wrong, budget=BUDGET)
        with pytest.raises(ValueError, match="not negative"):
            foreread.map(path, "u1", wrong)
    for make in (foreread.map, functools.partial(foreread.from_file, budget=BUDGET)):
        with pytest.raises(ValueError, match="have no bytes"):
            make(path, "S0")
        with pytest.raises(ValueError, match="10 bytes, no multiple of the 4 of uint32"):
            make(path, "u4")
        assert make(path, "u4", 2).shape == (2,)
        assert make(path, "u2").shape == (5,)


def test_a_file_fills_an_array(testbed: Testbed, big: bytes) -> None:
    array = foreread.empty(len(big), np.uint8, budget=BUDGET)
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        file.seek(5)
        assert foreread.fill(array, file) == len(big)
        assert file.tell() == 5
    assert array.tobytes() == big
    assert foreread.fill(array[100:], io.BytesIO(b"0123456789")) == 10
    assert array[98:112].tobytes() == big[98:100] + b"0123456789" + big[110:112]
    with pytest.raises(ValueError, match="contiguous"):
        foreread.fill(array[::2], io.BytesIO(b""))
    with pytest.raises(ValueError, match="offset"):
        foreread.fill(array, io.BytesIO(b""), 5)


def test_an_object_is_an_array(testbed: Testbed, big: bytes) -> None:
    mapped = foreread.map(testbed.url("big"), np.uint32, budget="4MiB", **testbed.options)
    ordinary = np.frombuffer(big, np.uint32)
    assert mapped.shape == ordinary.shape
    assert not mapped.flags.writeable
    assert mapped[12345] == ordinary[12345]
    assert (mapped == ordinary).all()
    assert mapped[::-1][:1000].tolist() == ordinary[::-1][:1000].tolist()
    region = mapped.region
    assert region is not None
    assert region.stats()["pages_mapped"] <= 1024
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1
    with pytest.raises(ValueError, match="needs"):
        foreread.map(testbed.url("small"), np.uint8, 100_001, **testbed.options)


def test_files_of_numpy_say_what_they_are(tmp_path: Path) -> None:
    for order in ("C", "F"):
        made = np.asarray(np.arange(300_000, dtype="f4").reshape(300, 1000), order=order)  # type: ignore[call-overload]
        path = tmp_path / f"{order}.npy"
        np.save(path, made)
        mapped = foreread.map(str(path))
        assert (mapped.shape, mapped.dtype) == (made.shape, made.dtype)
        assert (mapped == made).all()
        copied = foreread.from_file(str(path), budget="1MiB")
        assert (copied == made).all()
        copied[0, 0] = 5
        assert mapped[0, 0] == 0
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        foreread.map(str(tmp_path / "objects.npy"))


def test_a_fork_is_told(array: foreread.Array) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert array.region is not None
            array.region.stats()
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert b"after a fork the child has none" in pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert array[0] == COUNT - 1


def test_the_interpreter_exits_with_an_array() -> None:
    script = (
        "import foreread; a = foreread.empty(1 << 22, budget='2MiB'); a[:] = 1; print(int(a.sum()))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, f"{1 << 22}\n"), run.stderr


#: 4 MiB of random numbers, with many equal ones and some that are none.
def drawn(dtype: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    made = rng.integers(0, 1000, 1 << 19).astype(dtype)
    made[: 1 << 18] = rng.normal(500, 300, 1 << 18).astype(dtype)
    if dtype == "f8":
        made[::10_000] = np.nan
    return made


@pytest.fixture(params=["f8", ">i8"])
def pair(request: pytest.FixtureRequest) -> tuple[foreread.Array, np.ndarray[Any, Any]]:
    ordinary = drawn(request.param)
    array = foreread.empty(ordinary.shape, ordinary.dtype, budget="1MiB")
    array[:] = ordinary
    return array, ordinary


def test_what_sorts_a_large_one_lies_in_a_region(
    pair: tuple[foreread.Array, np.ndarray[Any, Any]],
) -> None:
    array, ordinary = pair
    stable = np.argsort(ordinary, kind="stable")
    found = np.argsort(array)
    assert found.region is not None and found.region is not array.region
    assert (found == stable).all()
    matrix, by_row = array.reshape(2, -1), np.argsort(ordinary.reshape(2, -1), kind="stable")
    assert (matrix.argsort() == by_row).all()
    assert (array.reshape(-1, 1024).argsort(-1).region) is not None
    assert (
        array.reshape(-1, 1024).argsort() == ordinary.reshape(-1, 1024).argsort(kind="stable")
    ).all()
    assert (matrix.argsort(None) == stable).all()
    # What numpy does by itself, with fewer bytes than the budget.
    assert array[:1000].argsort().region is None
    assert (
        array[: 1 << 15][::2].argsort(kind="stable")
        == ordinary[: 1 << 15][::2].argsort(kind="stable")
    ).all()
    equal = foreread.zeros(1 << 19, "i4", budget="1MiB")
    assert (equal.argsort() == np.arange(1 << 19)).all()


def test_copies_of_a_large_one_lie_in_regions(
    pair: tuple[foreread.Array, np.ndarray[Any, Any]],
) -> None:
    array, ordinary = pair
    matrix, expected = array.reshape(1024, -1), ordinary.reshape(1024, -1)
    for made, like in (
        (np.sort(array), np.sort(ordinary)),
        (array[::-1].copy(), ordinary[::-1]),
        (copy.copy(array), ordinary),
        (copy.deepcopy(matrix), expected),
        (matrix.T.flatten(), expected.T.flatten()),
        (matrix.T.copy("K"), expected.T),
        (matrix.copy("F"), expected),
        (array.astype("f4"), ordinary.astype("f4")),
    ):
        assert made.region is not None and made.region is not array.region
        assert made.region.stats()["pages_budget"] == 256
        assert np.array_equal(made, like, equal_nan=True)
        assert made.dtype == like.dtype
    assert matrix.copy("F").flags.f_contiguous and matrix.T.copy("K").flags.f_contiguous
    assert array[:1000].copy().region is None
    assert array.astype(array.dtype, copy=False) is array
    with pytest.raises(TypeError):
        array.astype("i1", casting="safe")
    usual = ordinary[~np.isnan(ordinary)] if ordinary.dtype.kind == "f" else ordinary
    array = foreread.empty(usual.shape, usual.dtype, budget="1MiB")
    array[:] = usual
    assert np.median(array) == np.median(usual)
    assert np.percentile(array, [10, 90]).tolist() == np.percentile(usual, [10, 90]).tolist()


def test_a_deviation_needs_no_copy() -> None:
    ordinary = np.random.default_rng(1).normal(5, 2, (1 << 13, 64))
    array = foreread.empty(ordinary.shape, budget="1MiB")
    array[:] = ordinary
    for axis in (None, 0, 1, -1, -2):
        for ddof in (0, 1):
            assert np.allclose(np.std(array, axis, ddof=ddof), np.std(ordinary, axis, ddof=ddof))
            assert np.allclose(array.var(axis, ddof=ddof), ordinary.var(axis, ddof=ddof))
    assert isinstance(array.std(), np.float64)
    assert np.std(array, 0, keepdims=True).shape == (1, 64)
    with pytest.raises(np.exceptions.AxisError):
        array.var(2)


def test_what_sorts_it_needs_little_memory() -> None:
    # 32 MiB of numbers and as much of indices, beside budgets of 4 MiB.
    program = """
import resource, numpy as np, foreread
array = foreread.empty(4 << 20, budget="4MiB")
for start in range(0, len(array), 1 << 20):
    array[start : start + (1 << 20)] = np.random.default_rng(start).random(1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
array.argsort(), np.sort(array), np.median(array), array.std(), np.percentile(array, 9)
four = array.reshape(-1, 4)
array.reshape(1, -1).std(), four.T.std(), four.T.var(1), four.var(0), array.reshape(1, -1).var(1)
array.reshape(4, -1).T.var((0, 1)), array.reshape(64, -1).var(0), array.reshape(64, -1).T.var(1)
array.view(complex).reshape(1, -1).var(), array.view("i2").reshape(1, -1).std()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 28

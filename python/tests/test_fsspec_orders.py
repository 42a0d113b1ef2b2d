"""The file system of fsspec, where it is told in which order files will be read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import foreread
from conftest import Testbed
from foreread import _native
from foreread.fsspec import ForereadFileSystem, Prefetch


def test_an_order_is_fetched_ahead_while_it_is_told(testbed: Testbed) -> None:
    names = [f"order/{nth * 37 % 100:02}" for nth in range(100)]
    for name in names:
        testbed.set_object(name, 20_000)
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    fs.invalidate_cache()
    order = [f"testbed/{name}" for name in names]
    testbed.reset()
    with fs.prefetch(order[:60]) as prefetch:
        assert prefetch.count == 60
        for path in order[:30]:
            assert len(fs.cat_file(path)) == 20_000
    counters = foreread.stats()
    assert counters["files_ahead_used"] >= 25, counters
    gets = [request["key"] for request in testbed.requests() if request["kind"] == "get"]
    assert set(gets) <= set(names[:60]) and len(gets) == len(set(gets)) > 30
    with fs.prefetch(["testbed/none/a", order[3]]) as prefetch:
        assert prefetch.count == 1


# Five pages each, or one: the stores of a process share its memory.
@pytest.mark.parametrize(
    "ahead, size, files",
    [("0", 20_000, 0), ("50KB", 20_000, 2), (600_000, 20_000, 29), ("32MiB", 4_000, 300)],
)
def test_no_more_of_an_order_is_ahead_than_is_said(
    testbed: Testbed, ahead: int | str, size: int, files: int
) -> None:
    names = [f"ahead-{files}/{nth * 37 % 400:03}" for nth in range(400)]
    for name in names:
        testbed.set_object(name, size)
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    order = [f"testbed/{name}" for name in names]
    assert len(fs.ls(f"testbed/ahead-{files}")) == 400
    testbed.reset()

    def gets() -> list[str]:
        log = [request["key"] for request in testbed.requests() if request["kind"] == "get"]
        return [key for key in log if key in names]

    with fs.prefetch(order[:300], ahead=ahead):
        for count, nth in enumerate((0, 1, 20, 60), 1):
            fs.cat_file(order[nth])
            while len(gets()) < min(files, 300):
                # Fetches that find no room go on with the next open.
                fs.cat_file(order[nth])
            assert len(gets()) <= files + count
    assert len(gets()) == len(set(gets()))


def test_an_order_that_fails_in_part_is_taken_back() -> None:
    class Stores:
        def __init__(self, fails: bool) -> None:
            self.fails = fails
            self.calls: list[str] = []

        def expect(self, paths: list[str], ahead: int | None) -> int:
            self.calls.append("expect")
            if self.fails:
                raise PermissionError("its own")
            return len(paths)

        def expect_none(self) -> None:
            self.calls.append("none")

    taken, refused = Stores(False), Stores(True)
    stores: Any = [(taken, {"a": "a"}), (refused, {"b": "b"})]
    with pytest.raises(PermissionError, match="its own"), Prefetch(stores, None):
        pass
    assert taken.calls == ["expect", "none"]
    assert not Prefetch.entered


def test_what_is_said_to_be_ahead_is_checked(testbed: Testbed) -> None:
    fs = ForereadFileSystem("s3", **testbed.options)
    for wrong in ("much", -1, "12 parsecs", 1.5):
        with pytest.raises(ValueError, match="is no size"):
            fs.prefetch(["testbed/small"], ahead=wrong)  # type: ignore[arg-type]


def test_an_order_lasts_until_the_last_block_is_left() -> None:
    class Store:
        calls = ""

        def expect(self, paths: list[str], ahead: int | None) -> int:
            self.calls += "e"
            return len(paths)

        def expect_none(self) -> None:
            self.calls += "n"

    one, other = Store(), Store()
    both: Any = [(one, {"a": "a"}), (other, {"b": "b"})]
    inner: Any = [(one, {"c": "c"})]
    first, second = Prefetch(both, None), Prefetch(inner, None)
    with first:
        with second:
            assert (one.calls, other.calls) == ("ee", "e")
        assert (one.calls, other.calls) == ("ee", "e")
        second.__enter__()
    assert (one.calls, other.calls) == ("eee", "en")
    second.__exit__()
    assert (one.calls, other.calls) == ("eeen", "en")


def test_stores_that_share_an_engine_are_equal(testbed: Testbed) -> None:
    def made(**options: Any) -> Any:
        return _native.Store("s3://testbed", **testbed.options | options)

    assert made() == made() and hash(made()) == hash(made())
    assert made() != made(share=False)


def test_an_order_that_is_too_long_is_no_error_of_a_copy(
    testbed: Testbed, tmp_path: Any, monkeypatch: Any
) -> None:
    names = [f"long/{nth}" for nth in range(10)]
    testbed.set_objects(names, 100)
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    fs.invalidate_cache()

    def prefetch(paths: Any) -> Any:
        raise ValueError(f"{len(paths)} names are too many")

    monkeypatch.setattr(fs, "prefetch", prefetch)
    fs.get("testbed/long", str(tmp_path / "to"), recursive=True)
    assert len(list((tmp_path / "to").iterdir())) == 10


def _scattered(testbed: Testbed, folder: str, count: int, size: int) -> list[str]:
    """Names of new files, in no order, and twice as many beside them that are not asked for."""
    testbed.set_objects([f"{folder}/{nth:03}" for nth in range(3 * count)], size)
    return [f"{folder}/{nth * 37 % (3 * count):03}" for nth in range(count)]


@pytest.mark.parametrize("how", ["get", "listed", "awaited", "cat"])
def test_files_that_are_wanted_together_cost_a_request_each(
    testbed: Testbed, tmp_path: Any, how: str
) -> None:
    names = _scattered(testbed, f"together-{how}", 100, 20_000)
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    fs.invalidate_cache()
    paths = [f"testbed/{name}" for name in names]
    local = [str(tmp_path / "in" / str(nth)) for nth in range(100)]
    if how == "listed":
        fs.ls(f"testbed/together-{how}")
    testbed.reset()
    if how == "cat":
        data = fs.cat(paths)
        found = [data[path] for path in paths]
    else:
        if how == "awaited":
            asyncio.run(fs._get(paths, local, batch_size=4))
        else:
            fs.get(paths, local)
        found = [Path(path).read_bytes() for path in local]
    counters = testbed.counters()
    gets = [request["key"] for request in testbed.requests() if request["kind"] == "get"]
    # A file that the order has fetched when its reader asks may come twice, seldom; with `cat`,
    # all readers ask at once. What lies beside the last ones may come when the order is over.
    assert set(names) <= set(gets)
    assert len(gets) < (150 if how == "cat" else 110)
    assert counters["list"] <= (20 if how == "cat" else 2)
    assert counters["head"] == 0
    assert counters["in_flight_max"] > 10
    assert not fs.is_told()
    for nth in (0, 50, 99):
        assert found[nth] == testbed.bytes_of(names[nth])


def test_an_order_of_the_program_is_not_taken_back(testbed: Testbed, tmp_path: Any) -> None:
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    names = [f"testbed/{name}" for name in _scattered(testbed, "kept", 30, 1000)]
    with fs.prefetch(names):
        fs.get(names[:20], [str(tmp_path / str(nth)) for nth in range(20)])
        assert fs.is_told()
    assert not fs.is_told()

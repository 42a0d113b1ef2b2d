"""The file system of fsspec: names, bytes, ranges, writes, and what the storage is asked for."""

from __future__ import annotations

import asyncio
import gc
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec import AbstractFileSystem

import foreread
from conftest import Gate, Testbed
from foreread.fsspec import ForereadFileSystem


@pytest.fixture
def fs(testbed: Testbed) -> Any:
    system = fsspec.filesystem("foreread", target_protocol="s3", **testbed.options)
    system.invalidate_cache()
    return system


class Buckets(AbstractFileSystem):  # type: ignore[misc]
    """What a client of buckets says of all of them, as it has them cached."""

    cachable = False

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self.cached: list[str] | None = None

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> list[Any]:
        assert path == ""
        assert detail
        if self.cached is None:
            self.cached = list(self.names)
        return [{"name": name, "size": 0, "type": "directory"} for name in self.cached]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.cached = None


class Writer(AbstractFileSystem):  # type: ignore[misc]
    """A client that writes objects of five bytes."""

    cachable = False

    def __init__(self, testbed: Testbed) -> None:
        super().__init__()
        self.testbed = testbed

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        self.testbed.set_object(path.removeprefix("s3://").removeprefix("testbed/"), 5)

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        self.pipe_file(rpath, b"")

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        self.pipe_file(path2, b"")

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        self.pipe_file(path, b"")

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        self.pipe_file(path, b"")
        return Written()


class Written(io.BytesIO):
    """A file that is written to."""


WRITES: list[Callable[[Any, str], Any]] = [
    lambda fs, path: fs.pipe_file(path, b"12345"),
    lambda fs, path: fs.pipe_file(path=f"s3://{path}", value=b"12345"),
    lambda fs, path: fs.pipe({path: b"12345"}),
    lambda fs, path: fs.put_file("/here", path),
    lambda fs, path: fs.put_file(lpath="/here", rpath=path),
    lambda fs, path: fs.cp_file("testbed/tree/a", path),
    lambda fs, path: fs.cp_file("testbed/tree/a", path2=path),
    lambda fs, path: fs.touch(path),
    lambda fs, path: fs.open(path, "wb").close(),
]


def test_names_are_those_of_the_target(fs: Any) -> None:
    assert fs.ls("testbed/tree", detail=False) == ["testbed/tree/a", "testbed/tree/b"]
    assert fs.ls("s3://testbed/tree/", detail=False) == ["testbed/tree/a", "testbed/tree/b"]
    entries = fs.ls("testbed/tree")
    assert [(entry["name"], entry["size"], entry["type"]) for entry in entries] == [
        ("testbed/tree/a", 10, "file"),
        ("testbed/tree/b", 0, "directory"),
    ]
    assert fs.ls("testbed/tree/a", detail=False) == ["testbed/tree/a"]
    assert fs.info("testbed/tree/a")["size"] == 10
    assert fs.info("testbed/tree")["type"] == "directory"
    assert fs.find("testbed/tree") == ["testbed/tree/a", "testbed/tree/b/c"]
    assert fs.find("testbed/tree", maxdepth=1) == ["testbed/tree/a"]
    assert fs.find("testbed/tree", withdirs=True) == [
        "testbed/tree",
        "testbed/tree/a",
        "testbed/tree/b",
        "testbed/tree/b/c",
    ]
    assert fs.find("testbed/none") == []
    assert fs.glob("testbed/tree/*") == ["testbed/tree/a", "testbed/tree/b"]
    assert fs.glob("testbed/**/c") == ["testbed/tree/b/c"]
    assert [where for where, _, _ in fs.walk("testbed/tree")] == ["testbed/tree", "testbed/tree/b"]
    assert fs.du("testbed/tree") == 30
    assert (fs.isdir("testbed/tree"), fs.isfile("testbed/tree")) == (True, False)
    assert (fs.isdir("testbed/tree/a"), fs.isfile("testbed/tree/a")) == (False, True)
    assert (fs.exists("testbed/tree/a"), fs.exists("testbed/no")) == (True, False)
    assert fs.unstrip_protocol("testbed/tree/a") == "foreread://testbed/tree/a"
    with pytest.raises(FileNotFoundError):
        fs.info("testbed/no")
    with pytest.raises(FileNotFoundError):
        fs.ls("testbed/no")
    with pytest.raises(FileNotFoundError):
        fs.open("testbed/no")
    with pytest.raises(ValueError, match="at least 1"):
        fs.find("testbed/tree", maxdepth=0)
    with pytest.raises(ValueError, match="no URL of s3"):
        fs.info("gs://bucket/key")


@pytest.mark.parametrize("how", ["exists", "isdir", "isfile"])
def test_a_bucket_that_does_not_exist_is_no_directory(fs: Any, how: str) -> None:
    assert getattr(fs, how)("no-bucket") is False
    assert asyncio.run(getattr(fs, f"_{how}")("no-bucket")) is False


@pytest.mark.parametrize("how", ["info", "ls", "find", "du", "open", "cat_file"])
def test_a_bucket_that_does_not_exist_is_named(fs: Any, how: str) -> None:
    with pytest.raises(FileNotFoundError, match="bucket s3://no-bucket does not exist"):
        getattr(fs, how)("no-bucket")
    if how not in ("du", "open"):
        with pytest.raises(FileNotFoundError, match="bucket s3://no-bucket does not exist"):
            asyncio.run(getattr(fs, f"_{how}")("no-bucket"))


def test_a_directory_of_a_bucket_that_does_not_exist_is_not_empty(fs: Any) -> None:
    for call in (fs.ls, fs.find):
        with pytest.raises(FileNotFoundError, match="bucket s3://no-bucket does not exist"):
            call("no-bucket/a")
    assert fs.find("testbed/none") == []


def test_a_bucket_is_no_file(fs: Any) -> None:
    for call in (fs.open, fs.cat_file):
        with pytest.raises(FileNotFoundError, match="s3://testbed is no file"):
            call("testbed")


def test_a_bucket_that_is_refused_is_an_error(testbed: Testbed) -> None:
    wrong = ForereadFileSystem("s3", **testbed.options | {"key": "other", "secret": "wrong"})
    for call in (wrong.exists, wrong.info, wrong.ls, wrong.find):
        with pytest.raises(PermissionError):
            call("testbed")


def test_an_empty_bucket_is_an_empty_directory() -> None:
    testbed = Testbed({})
    try:
        fs = ForereadFileSystem("s3", **testbed.options)
        assert fs.exists("testbed")
        assert fs.info("testbed") == {"name": "testbed", "size": 0, "type": "directory"}
        assert fs.ls("testbed") == fs.find("testbed") == []
        assert fs.du("testbed") == 0
    finally:
        testbed.stop()


@pytest.mark.parametrize("before", ["ls", "find", "info", "cat_file"])
def test_a_bucket_that_has_answered_is_not_asked_for(
    fs: Any, testbed: Testbed, before: str
) -> None:
    getattr(fs, before)("testbed/tree/a" if before in ("info", "cat_file") else "testbed/tree")
    testbed.reset()
    assert fs.isdir("testbed")
    assert testbed.counters()["list"] == testbed.counters()["head"] == 0


@pytest.mark.parametrize("how", ["info", "ls", "open", "cat_file"])
def test_a_name_that_is_missing_is_told_as_it_was_asked_for(fs: Any, how: str) -> None:
    for name in ("missing", "tree/missing", "missing/below"):
        with pytest.raises(FileNotFoundError) as raised:
            getattr(fs, how)(f"testbed/{name}")
        assert raised.value.filename == name


def test_directories_are_found_with_the_one_that_is_searched(fs: Any, tmp_path: Path) -> None:
    assert fs.find("testbed/tree/b", withdirs=True) == ["testbed/tree/b", "testbed/tree/b/c"]
    assert fs.find("testbed/tree/b", maxdepth=1, withdirs=True)[0] == "testbed/tree/b"
    assert fs.glob("testbed/tree/**") == fs.find("testbed/tree", withdirs=True)
    assert fs.find("testbed/tree/a", withdirs=True) == ["testbed/tree/a"]
    assert fs.find("testbed/none", withdirs=True) == []
    # As s3fs: not a bucket.
    assert fs.find("testbed", maxdepth=1, withdirs=True)[0] == "testbed/big"
    (tmp_path / "a/b").mkdir(parents=True)
    local, theirs = ForereadFileSystem("file"), fsspec.filesystem("file")
    for path in (str(tmp_path), str(tmp_path / "a/b")):
        assert local.find(path, withdirs=True) == theirs.find(path, withdirs=True)
        assert local.glob(f"{path}/**") == theirs.glob(f"{path}/**")
    assert local.find("/", maxdepth=1, withdirs=True)[0] == "/"


def test_a_slash_in_front_changes_nothing(fs: Any, testbed: Testbed) -> None:
    assert fs.exists("/testbed/tree/a")
    assert fs.info("/testbed/tree/a")["name"] == "testbed/tree/a"
    assert fs.ls("/testbed/tree", detail=False) == ["testbed/tree/a", "testbed/tree/b"]
    assert fs.find("/testbed/tree/") == ["testbed/tree/a", "testbed/tree/b/c"]
    assert fs.cat("/testbed/tree/a") == testbed.bytes_of("tree/a")
    with fs.open("/testbed/tree/a") as file:
        assert file.path == "testbed/tree/a"
    buckets = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    buckets._writer = Buckets(["ant"])
    assert buckets.ls("/", detail=False) == ["ant"]
    assert buckets.info("/")["type"] == "directory"


@pytest.mark.parametrize("name", ["/tree/a", "./tree/a", "tree/./a", "tree//a", "..", "tree/../x"])
def test_a_name_that_nothing_can_have_is_not_there(fs: Any, testbed: Testbed, name: str) -> None:
    for _ in range(2):
        assert not fs.exists(f"testbed/{name}")
        assert not fs.isdir(f"testbed/{name}")
        for call in (fs.info, fs.ls, fs.open, fs.cat_file):
            with pytest.raises(FileNotFoundError) as raised:
                call(f"testbed/{name}")
            assert raised.value.filename == name
        assert fs.find(f"testbed/{name}") == []
        fs.invalidate_cache()


def test_a_tree_is_found_in_few_requests(testbed: Testbed, fs: Any) -> None:
    names = [f"many/d{nth // 5:03}/f{nth % 5}" for nth in range(1500)]
    names += [f"many/d{nth:03}/e/g" for nth in range(0, 300, 3)]
    testbed.set_objects(names, 1)
    testbed.reset()
    assert fs.find("testbed/many") == sorted(f"testbed/{name}" for name in names)
    # A page has a thousand names. Until the first has come directories are listed one by one, and
    # how many that are is a matter of time: 19 to 100 of 400 were seen.
    assert testbed.counters()["list"] < 200


def test_what_is_too_deep_is_not_found(testbed: Testbed, fs: Any) -> None:
    testbed.set_objects([f"deep/{at}/{at}/{at}" for at in range(20)], 1)
    testbed.set_objects(["deep/1/here"], 1)
    assert fs.find("testbed/deep", maxdepth=2) == ["testbed/deep/1/here"]


def test_what_is_too_deep_is_not_listed(testbed: Testbed, fs: Any) -> None:
    testbed.set_objects([f"flat/{at}/{at}/{at}" for at in range(20)], 1)
    assert fs.find("testbed/flat", maxdepth=1, withdirs=True)[:3] == [
        "testbed/flat",
        "testbed/flat/0",
        "testbed/flat/1",
    ]
    # A request that is late is made twice.
    lists = {request["key"] for request in testbed.requests() if request["kind"] == "list"}
    assert {prefix for prefix in lists if prefix.startswith("flat")} == {"flat/"}


def test_an_open_after_a_question_costs_no_request(fs: Any, testbed: Testbed) -> None:
    # As pyarrow does: is it a file, then open it.
    assert fs.isfile("testbed/small")
    testbed.reset()
    with fs.open("testbed/small") as file:
        assert file.size == 100_000
    counters = testbed.counters()
    assert (counters["head"], counters["list"], counters["get"]) == (0, 0, 0)


def test_bytes_are_those_of_the_object(fs: Any, testbed: Testbed, big: bytes) -> None:
    small = testbed.bytes_of("small")
    assert fs.cat_file("testbed/small") == small
    assert fs.cat_file("testbed/small", 10, 20) == small[10:20]
    assert fs.cat_file("testbed/small", -10) == small[-10:]
    assert fs.cat_file("testbed/small", -20, -10) == small[-20:-10]
    assert fs.cat_file("testbed/empty") == b""
    assert fs.head("testbed/small", 5) == small[:5]
    assert fs.tail("testbed/small", 5) == small[-5:]
    assert fs.cat(["testbed/tree/a", "testbed/small"]) == {
        "testbed/tree/a": testbed.bytes_of("tree/a"),
        "testbed/small": small,
    }
    assert fs.cat("testbed/tree", recursive=True).keys() == {"testbed/tree/a", "testbed/tree/b/c"}
    with fs.open("testbed/big") as file:
        file.seek(1 << 20)
        assert file.read(100) == big[1 << 20 : (1 << 20) + 100]
        assert file.readline() == big[(1 << 20) + 100 :].split(b"\n", 1)[0] + b"\n"


@pytest.mark.parametrize(
    "options",
    [
        {"default_cache": "none"},  # Dask
        {"default_fill_cache": False, "default_cache_type": "first"},  # kerchunk
        {"block_size": 1 << 20, "cache_type": "readahead", "cache_options": {}},
    ],
)
def test_what_describes_another_cache_changes_nothing(
    fs: Any, testbed: Testbed, options: dict[str, Any]
) -> None:
    with fs.open("testbed/small", mode="rb", **options) as file:
        assert file.read() == testbed.bytes_of("small")
    with pytest.raises(TypeError, match=r"'defualt_cache'; known are .*default_cache"):
        fs.open("testbed/small", defualt_cache="none", **options)


def test_text_is_decoded(fs: Any, testbed: Testbed) -> None:
    with fs.open("testbed/small", "r", encoding="latin-1", newline="") as file:
        assert file.read() == testbed.bytes_of("small").decode("latin-1")


def test_ranges_of_several_files_are_in_flight_together(testbed: Testbed) -> None:
    for name in ("left", "right"):
        testbed.set_object(name, 8 << 20)
    data = {name: testbed.bytes_of(name) for name in ("left", "right")}
    paths = ["testbed/left", "testbed/right"] * 8
    starts = [(place // 2) << 20 for place in range(16)]
    ends = [start + 1000 for start in starts]
    with Gate(testbed, reads=8) as gate:
        fs = ForereadFileSystem("s3", **gate.options)
        fs.ls("testbed")
        testbed.reset()
        found = fs.cat_ranges(paths, starts, ends)
    expected = [
        data[path.removeprefix("testbed/")][start:end]
        for path, start, end in zip(paths, starts, ends, strict=True)
    ]
    assert found == expected
    # A small file beside them may be fetched as well.
    gets = [request for request in testbed.requests() if request["kind"] == "get"]
    assert len([request for request in gets if request["key"] in data]) == 16


def test_a_range_that_fails_is_an_exception_in_its_place(fs: Any, testbed: Testbed) -> None:
    small = testbed.bytes_of("small")
    found = fs.cat_ranges(["testbed/small", "testbed/none"], [0, 0], [10, 10])
    assert found[0] == small[:10]
    assert isinstance(found[1], FileNotFoundError)
    assert fs.cat_ranges(["testbed/small"] * 2, np.int64(5), np.uint32(10)) == [small[5:10]] * 2
    found = fs.cat_ranges(["testbed/small"] * 2, np.array([0, 10]), [np.int64(10), np.uint8(20)])
    assert found == [small[:10], small[10:20]]
    assert fs.cat_file("testbed/small", np.uint64(7), np.int16(-5)) == small[7:-5]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["testbed/small", "testbed/none"], [0, 0], [10, 10], on_error="raise")
    with pytest.raises(ValueError, match="equally many"):
        fs.cat_ranges(["testbed/small"], [0, 1], [10, 11])


def test_what_is_awaited_is_what_waits(testbed: Testbed) -> None:
    async def read() -> None:
        fs = ForereadFileSystem("s3", asynchronous=True, **testbed.options)
        small = testbed.bytes_of("small")
        assert await fs._cat_file("testbed/small", 5, 50) == small[5:50]
        found = await fs._cat_ranges(["testbed/small"] * 2, [0, 10], [10, 20])
        assert found == [small[:10], small[10:20]]
        assert await fs._ls("testbed/tree", detail=False) == ["testbed/tree/a", "testbed/tree/b"]
        assert await fs._find("testbed/tree") == ["testbed/tree/a", "testbed/tree/b/c"]
        assert (await fs._info("testbed/tree/a"))["size"] == 10
        assert await fs._exists("testbed/tree/a")
        assert not await fs._exists("testbed/no")
        assert await fs._isfile("testbed/tree/a")
        assert await fs._isdir("testbed/tree")
        with pytest.raises(FileNotFoundError):
            await fs._cat_file("testbed/no")

    asyncio.run(read())


def test_no_thread_of_fsspec_is_started(testbed: Testbed) -> None:
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    before = {thread.name for thread in threading.enumerate()}
    fs.cat_file("testbed/small")
    fs.ls("testbed")
    fs.cat_ranges(["testbed/small"], [0], [10])
    started = {thread.name for thread in threading.enumerate()} - before
    assert not any("fsspec" in name for name in started), started


def test_urls_are_chained(testbed: Testbed) -> None:
    with fsspec.open("foreread::s3://testbed/small", foreread=testbed.options) as file:
        assert file.read() == testbed.bytes_of("small")
    first, path = fsspec.core.url_to_fs("foreread::s3://testbed/tree/a", foreread=testbed.options)
    second, _ = fsspec.core.url_to_fs("foreread::s3://testbed/small", foreread=testbed.options)
    assert path == "testbed/tree/a"
    assert first is second, "one file system for all URLs of a store"


def test_a_block_cache_of_fsspec_is_put_before_it(testbed: Testbed, tmp_path: Any) -> None:
    testbed.set_object("blocks", 2 << 20)
    data = testbed.bytes_of("blocks")
    options = {
        "foreread": {"target_protocol": "s3", **testbed.options},
        "blockcache": {"cache_storage": str(tmp_path)},
    }
    ForereadFileSystem(**options["foreread"]).invalidate_cache()

    def opened() -> Any:
        fs, path = fsspec.core.url_to_fs("blockcache::foreread://testbed/blocks", **options)
        return fs.open(path, block_size=1 << 18)

    with opened() as file:
        file.seek(1000)
        assert file.read(3) == data[1000:1003]
        assert file.tell() == 1003
        buffer = bytearray(100)
        assert file.readinto(buffer) == 100
        assert buffer == data[1003:1103]
        assert file.read_ranges([(5, 10), (1 << 18, 7)]) == [data[5:15], data[1 << 18 :][:7]]
        assert file.read_at((2 << 20) - 2, 5) == data[-2:]
        assert file.read_at(2 << 20, 5) == b""
    assert file.closed
    # What was read lies in the file of the cache.
    stored = next(path for path in tmp_path.iterdir() if path.name != "cache")
    assert stored.read_bytes()[: 1 << 18] == data[: 1 << 18]
    with opened() as file:
        # It takes the block after the last one, too.
        assert file.cache.blocks - {8} == {0, 1, 7}
        assert file.read() == data


def test_a_file_system_is_pickled(fs: Any, testbed: Testbed) -> None:
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("testbed/tree/a") == testbed.bytes_of("tree/a")
    with fs.open("testbed/small") as file:
        file.seek(7)
        sent = pickle.loads(pickle.dumps(file))
        assert sent.read() == testbed.bytes_of("small")[7:]
    assert fsspec.AbstractFileSystem.from_json(fs.to_json()).exists("testbed/small")


def test_options_are_checked(testbed: Testbed) -> None:
    with pytest.raises(TypeError, match=r"'endpont'; known are .*target_protocol"):
        ForereadFileSystem("s3", endpont="x")
    with pytest.raises(ValueError, match="known are s3"):
        ForereadFileSystem("ftp")
    before = foreread.configure()
    try:
        ForereadFileSystem("s3", memory="100MiB", **testbed.options)
        assert foreread.configure() == 100 << 20
    finally:
        foreread.configure(memory=before)


def test_files_are_copied_with_progress(fs: Any, testbed: Testbed, tmp_path: Any) -> None:
    told = fsspec.callbacks.Callback()
    fs.get("testbed/big", str(tmp_path / "big"), callback=told)
    assert (tmp_path / "big").read_bytes() == testbed.bytes_of("big")
    fs.get("testbed/tree", str(tmp_path / "tree"), recursive=True)
    assert (tmp_path / "tree/b/c").read_bytes() == testbed.bytes_of("tree/b/c")
    told = fsspec.callbacks.Callback()
    fs.get_file("testbed/big", str(tmp_path / "again"), callback=told)
    assert told.size == told.value == 64 << 20


def test_a_tree_is_copied_as_by_fsspec(fs: Any, testbed: Testbed, tmp_path: Any) -> None:
    testbed.set_objects(["copied/a", "copied/b/c", "copied/b/d/e", "copied/b/d/f"], 3_000)
    testbed.set_object("copied/large", 9 << 20)
    testbed.set_object("copied/larger", 10 << 20)
    testbed.set_object("copied/none", 0)
    fs.invalidate_cache()

    def copy(get: Any, name: str) -> dict[str, bytes | None]:
        below = tmp_path / name
        (below / "there").mkdir(parents=True)
        for nth, (source, target, options) in enumerate(
            (
                ("testbed/copied", "new", {"recursive": True}),
                ("testbed/copied", "there", {"recursive": True}),
                ("testbed/copied/", "there/flat", {"recursive": True}),
                ("testbed/copied/b", "shallow", {"recursive": True, "maxdepth": 1}),
                ("testbed/copied/b/*", "glob/", {}),
                ("testbed/copied/*", "whole/", {"recursive": True}),
                ("testbed/copied/a", "file", {}),
                ("testbed/copied/a", "there/", {}),
                ("testbed/copied/b", "no", {}),
                (["testbed/copied/a", "testbed/copied/b/c"], "list/", {}),
                (["testbed/copied/a"], [below / "listed"], {}),
            )
        ):
            if isinstance(target, str):
                target = str(below / target) + ("/" if target.endswith("/") else "")
            get(source, target if get is own or nth < 10 else [str(target[0])], **options)
        return {
            str(path.relative_to(below)): path.read_bytes() if path.is_file() else None
            for path in sorted(below.rglob("*"))
        }

    def of_fsspec(*args: Any, **kwargs: Any) -> None:
        AbstractFileSystem.get(fs, *args, **kwargs)

    own = fs.get
    found = copy(own, "own")
    assert found == copy(of_fsspec, "fsspec")
    assert found["new/b/d/f"] == testbed.bytes_of("copied/b/d/f")
    assert found["new/larger"] == testbed.bytes_of("copied/larger")
    assert found["new/none"] == b""


def test_local_paths_may_be_objects(fs: Any, testbed: Testbed, tmp_path: Any) -> None:
    data = testbed.bytes_of("tree/a")
    fs.get("testbed/tree/a", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == data
    fs.get("testbed/tree/a", tmp_path)
    assert (tmp_path / "a").read_bytes() == data
    fs.get(["testbed/tree/a"], [tmp_path / "two"])
    assert (tmp_path / "two").read_bytes() == data
    fs.get("testbed/tree", tmp_path / "tree", recursive=True)
    assert (tmp_path / "tree/b/c").read_bytes() == testbed.bytes_of("tree/b/c")
    fs.download("testbed/tree/a", tmp_path / "three")
    assert (tmp_path / "three").read_bytes() == data
    asyncio.run(fs._get("testbed/tree/a", tmp_path / "four"))
    assert (tmp_path / "four").read_bytes() == data
    fs.get_file("testbed/tree/a", tmp_path / "five")
    assert (tmp_path / "five").read_bytes() == data


class Told(fsspec.callbacks.Callback):  # type: ignore[misc]
    """A callback with a branch for each file, which were not told at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.branches: dict[tuple[str, str], Any] = {}
        self.closed = 0

    def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Any:
        told = self

        class Branch(fsspec.callbacks.Callback):  # type: ignore[misc]
            def close(self) -> None:
                told.closed += 1

        branch = self.branches[path_1, path_2] = Branch()
        return branch


def test_progress_is_told_of_files_and_of_bytes(fs: Any, testbed: Testbed, tmp_path: Any) -> None:
    sizes = {f"progress/{nth}": nth * 1000 for nth in range(20)}
    sizes |= {"progress/large-1": 5 << 20, "progress/large-2": 9 << 20}
    for name, size in sizes.items():
        testbed.set_object(name, size)
    fs.invalidate_cache()
    told = Told()
    paths = {f"testbed/{name}": str(tmp_path / name) for name in sizes}
    fs.get(list(paths), list(paths.values()), callback=told)
    assert (told.size, told.value, told.closed) == (22, 22, 22)
    assert told.branches.keys() == set(paths.items())
    for name, size in sizes.items():
        branch = told.branches[f"testbed/{name}", str(tmp_path / name)]
        assert (branch.size, branch.value) == (size, size)
        assert (tmp_path / name).stat().st_size == size


def test_the_first_error_ends_a_copy(fs: Any, testbed: Testbed, tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        fs.get("testbed/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    many = [f"testbed/tree/{name}" for name in ("a", "none", "b/c")] * 20
    with pytest.raises(FileNotFoundError, match="none"):
        fs.get(many, [str(tmp_path / str(nth)) for nth in range(60)])
    testbed.set_objects([f"large/{nth}" for nth in range(9)], 2 << 20)
    fs.invalidate_cache()
    (tmp_path / "5").mkdir()
    with pytest.raises(IsADirectoryError):
        fs.get(
            [f"testbed/large/{nth}" for nth in range(9)],
            [str(tmp_path / str(nth)) for nth in range(9)],
        )
    assert not [each.name for each in threading.enumerate() if "foreread-get" in each.name]


def test_versions_are_told(fs: Any, testbed: Testbed) -> None:
    testbed.set_object("told", 1000, 1)
    fs.invalidate_cache()
    first = fs.ukey("testbed/told")
    assert first == fs.ukey("testbed/told")
    assert fs.info("testbed/told")["ETag"]
    testbed.set_object("told", 1000, 2)
    fs.invalidate_cache()
    assert fs.ukey("testbed/told") != first


def test_writes_go_to_the_target(tmp_path: Any) -> None:
    fs = ForereadFileSystem("file")
    path = str(tmp_path / "written")
    with fs.open(path, "wb") as file:
        file.write(b"one")
    assert fs.cat_file(path) == b"one"
    fs.pipe_file(path, b"three")
    assert fs.cat_file(path) == b"three"
    assert fs.info(path)["size"] == 5
    fs.rm(path)
    assert not fs.exists(path)
    fs.makedirs(str(tmp_path / "a/b"))
    assert fs.isdir(str(tmp_path / "a/b"))


def test_buckets_are_listed_by_the_target(testbed: Testbed) -> None:
    fs = ForereadFileSystem("s3", **testbed.options)
    fs._writer = Buckets(["ant"])
    assert fs.ls("", detail=False) == ["ant"]
    fs._writer.names = ["zebra", "ant"]
    assert fs.ls("", detail=False) == ["ant", "zebra"]
    assert fs.ls("s3://", detail=False) == ["ant", "zebra"]
    assert [entry["type"] for entry in fs.ls("")] == ["directory"] * 2
    assert asyncio.run(fs._ls("", detail=False)) == ["ant", "zebra"]
    assert fs.find("", maxdepth=1, withdirs=True) == ["ant", "zebra"]
    assert fs.glob("*") == ["ant", "zebra"]
    assert next(iter(fs.walk("")))[1] == ["ant", "zebra"]


def test_a_write_is_seen_by_what_has_looked_before(testbed: Testbed) -> None:
    other = foreread._native.Store("s3://testbed", **testbed.options)
    for nth, write in enumerate(WRITES):
        # It has read nothing itself.
        fs = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
        fs._writer = Writer(testbed)
        name = f"tree/written-{nth}"
        with pytest.raises(FileNotFoundError):
            other.info(name, name)
        write(fs, f"testbed/{name}")
        assert other.info(name, name)["size"] == 5


#: The same, awaited.
AWAITED: list[Callable[[Any, str], Any]] = [
    lambda fs, path: fs._pipe_file(path, b"12345"),
    lambda fs, path: fs._pipe_file(path=f"s3://{path}", value=b"12345"),
    lambda fs, path: fs._pipe({path: b"12345"}),
    lambda fs, path: fs._put_file("/here", path),
    lambda fs, path: fs._cp_file("testbed/tree/a", path2=path),
    lambda fs, path: fs._copy("testbed/tree/a", path),
    lambda fs, path: fs._touch(path),
]


class Awaited(Writer):
    """The same client, which is awaited: what waits is refused."""

    async_impl = True
    asynchronous = True

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        raise RuntimeError("this client is awaited")

    async def _pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        Writer.pipe_file(self, path, value)

    async def _put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        await self._pipe_file(rpath, b"")

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        await self._pipe_file(path2, b"")

    async def _touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        await self._pipe_file(path, b"")


@pytest.mark.parametrize("kind", [Writer, Awaited])
def test_a_write_that_is_awaited_is_seen(testbed: Testbed, kind: type[Writer]) -> None:
    other = foreread._native.Store("s3://testbed", **testbed.options)

    async def write() -> None:
        for nth, write in enumerate(AWAITED):
            fs = ForereadFileSystem(
                "s3", asynchronous=True, skip_instance_cache=True, **testbed.options
            )
            fs._writer = kind(testbed)
            name = f"tree/awaited-{kind.__name__}-{nth}"
            with pytest.raises(FileNotFoundError):
                other.info(name, name)
            await write(fs, f"testbed/{name}")
            assert other.info(name, name)["size"] == 5

    asyncio.run(write())


def test_writes_that_are_awaited_go_to_the_target(tmp_path: Any) -> None:
    async def write() -> None:
        fs = ForereadFileSystem("file", asynchronous=True)
        path = str(tmp_path / "written")
        await fs._pipe_file(path, b"one")
        assert await fs._cat_file(path) == b"one"
        await fs._pipe_file(path, b"three")
        assert await fs._cat_file(path) == b"three"
        await fs._cp_file(path, f"{path}-2")
        await fs._put_file(path, f"{path}-3")
        assert await fs._find(str(tmp_path)) == [path, f"{path}-2", f"{path}-3"]
        await fs._rm_file(f"{path}-3")
        await fs._rm(f"{path}-2")
        assert await fs._find(str(tmp_path)) == [path]
        await fs._mkdir(str(tmp_path / "a"))
        await fs._makedirs(str(tmp_path / "a/b"), exist_ok=True)
        assert await fs._isdir(str(tmp_path / "a/b"))
        await fs._rm(str(tmp_path / "a"), recursive=True)
        assert not await fs._exists(str(tmp_path / "a"))
        with pytest.raises(FileNotFoundError):
            await fs._rm_file(f"{path}-3")

    asyncio.run(write())


def test_a_write_that_fails_raises_the_error_of_the_target(testbed: Testbed) -> None:
    class Refuses(Writer):
        def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
            raise OSError(f"its own of {path}")

    fs = ForereadFileSystem("s3", **testbed.options)
    fs._writer = Refuses(testbed)
    with pytest.raises(OSError, match="its own of gs://testbed/a"):
        fs.pipe_file("gs://testbed/a", b"12345")
    with pytest.raises(OSError, match="its own of gs://testbed/a"):
        asyncio.run(fs._pipe_file("gs://testbed/a", b"12345"))


def test_a_file_that_is_let_go_is_written(tmp_path: Any) -> None:
    fs = ForereadFileSystem("file")
    gc.disable()
    try:
        file = fs.open(str(tmp_path / "written"), "wb")
        file.write(b"one")
        del file
        assert (tmp_path / "written").read_bytes() == b"one"
    finally:
        gc.enable()


def test_names_are_forgotten_by_a_store_that_was_not_used(testbed: Testbed) -> None:
    used, other = (foreread._native.Store("s3://testbed", **testbed.options) for _ in range(2))
    assert used.info("tree/a", "a")["size"] == 10
    with pytest.raises(FileNotFoundError):
        used.info("tree/new", "new")
    testbed.set_object("tree/new", 5)
    other.forget()
    assert used.info("tree/new", "new")["size"] == 5

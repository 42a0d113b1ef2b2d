"""The file system of fsspec, where objects are replaced between what is told of a name and a read
of it."""

from __future__ import annotations

import asyncio
import io
import itertools
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

import foreread
from conftest import Testbed
from foreread.fsspec import ForereadFileSystem

#: Of the object that is there first, and of the one that replaces it.
SIZES = (1_000, 1_500)

NUMBERS = itertools.count(100)


@pytest.fixture
def fs(testbed: Testbed) -> Any:
    system = ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)
    # It has a store now, of which names can be forgotten.
    assert system.exists("testbed")
    return system


@pytest.fixture
def replaced(testbed: Testbed, fs: Any) -> tuple[str, bytes]:
    """A name of which `fs` was told before the object was replaced, and the bytes there now."""
    # Nothing of it was read before.
    key = f"replaced/{next(NUMBERS)}"
    testbed.set_object(key, SIZES[0], 1)
    fs.invalidate_cache()
    assert fs.info(f"testbed/{key}")["size"] == SIZES[0]
    testbed.set_object(key, SIZES[1], 2)
    return f"testbed/{key}", testbed.bytes_of(key)


ONE_SHOT: dict[str, tuple[Callable[[Any, str], Any], Callable[[bytes], Any]]] = {
    "cat_file": (lambda fs, path: fs.cat_file(path), lambda data: data),
    "its end": (lambda fs, path: fs.cat_file(path, -10), lambda data: data[-10:]),
    "cat": (lambda fs, path: fs.cat(path), lambda data: data),
    "cat of a list": (lambda fs, path: list(fs.cat([path]).values()), lambda data: [data]),
    "glob": (lambda fs, path: list(fs.cat(fs.glob(f"{path}*")).values()), lambda data: [data]),
    "head": (lambda fs, path: fs.head(path, 20), lambda data: data[:20]),
    "tail": (lambda fs, path: fs.tail(path, 20), lambda data: data[-20:]),
    "read_block": (
        lambda fs, path: fs.read_block(path, 500, 2_000),
        lambda data: data[500:],
    ),
    "cat_ranges": (
        lambda fs, path: fs.cat_ranges([path] * 2, [0, -5], [10, None], on_error="raise"),
        lambda data: [data[:10], data[-5:]],
    ),
    "awaited": (lambda fs, path: asyncio.run(fs._cat_file(path)), lambda data: data),
    "awaited ranges": (
        lambda fs, path: asyncio.run(fs._cat_ranges([path] * 2, [0, -5], [10, None])),
        lambda data: [data[:10], data[-5:]],
    ),
}


@pytest.mark.parametrize("how", ONE_SHOT)
def test_what_is_read_at_once_is_the_version_that_is_there(
    fs: Any, replaced: tuple[str, bytes], how: str
) -> None:
    path, data = replaced
    call, expected = ONE_SHOT[how]
    assert call(fs, path) == expected(data)


def test_a_copy_is_of_the_version_that_is_there(
    fs: Any, replaced: tuple[str, bytes], tmp_path: Path
) -> None:
    path, data = replaced
    told = fsspec.callbacks.Callback()
    fs.get_file(path, str(tmp_path / "a"), callback=told)
    assert (tmp_path / "a").read_bytes() == data
    assert (told.size, told.value) == (len(data), len(data))


def test_a_copy_that_has_begun_begins_again(fs: Any, testbed: Testbed) -> None:
    class Target(io.BytesIO):
        """Has the object replaced when the first piece has come."""

        def write(self, piece: Any) -> int:
            if self.tell() == 5:
                testbed.set_object("copied", 9 << 20, 2)
            return super().write(piece)

    testbed.set_object("copied", 64 << 20, 1)
    fs.invalidate_cache()
    target = Target()
    target.write(b"first")
    fs.get_file("testbed/copied", "", outfile=target)
    assert target.getvalue() == b"first" + testbed.bytes_of("copied")


def test_a_copy_asks_for_nothing_but_the_file(fs: Any, testbed: Testbed, tmp_path: Path) -> None:
    testbed.set_object("copy/one", 1_000)
    fs.invalidate_cache()
    testbed.reset()
    fs.get_file("testbed/copy/one", str(tmp_path / "one"))
    before = {request["kind"] for request in testbed.requests() if request["key"] == "copy/one"}
    assert before <= {"head", "get"}
    fs.get_file("testbed/copy", str(tmp_path / "directory"))
    assert (tmp_path / "directory").is_dir()
    with pytest.raises(FileNotFoundError):
        fs.get_file("testbed/none", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_what_was_not_replaced_is_asked_for_once(fs: Any, testbed: Testbed) -> None:
    testbed.set_object("kept", 1_000)
    fs.invalidate_cache()
    fs.info("testbed/kept")
    testbed.reset()
    fs.cat_file("testbed/kept")
    assert [request["kind"] for request in testbed.requests()] == ["get"]


def test_the_first_read_says_which_version_a_file_is(fs: Any, replaced: tuple[str, bytes]) -> None:
    path, data = replaced
    with fs.open(path) as file:
        assert file.read() == data
        assert (file.size, file.tell()) == (len(data), len(data))


def test_a_method_that_was_taken_of_a_file_goes_on(fs: Any, replaced: tuple[str, bytes]) -> None:
    path, data = replaced
    with fs.open(path) as file:
        read = file.read
        assert b"".join(iter(lambda: read(400), b"")) == data


def test_a_file_that_was_read_keeps_its_version(fs: Any, testbed: Testbed) -> None:
    testbed.set_object("pinned", 64 << 20, 1)
    fs.invalidate_cache()
    with fs.open("testbed/pinned") as file:
        file.read(10)
        testbed.set_object("pinned", 64 << 20, 2)
        with pytest.raises(foreread.VersionChanged):
            file.read_at(60 << 20, 10)


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.read_at(0, 2_000),
        lambda file: file.read_ranges([(0, 700), (700, 2_000)]),
        lambda file: file.peek(2_000),
        lambda file: file.readall(),
        lambda file: bytes(file.readinto(bytearray(2_000))),
        lambda file: file.read1(),
        lambda file: file.readlines(),
        lambda file: io.TextIOWrapper(file, "latin-1", newline="").read(),
    ],
)
def test_each_way_to_read_may_be_the_first(
    fs: Any, testbed: Testbed, replaced: tuple[str, bytes], read: Callable[[Any], Any]
) -> None:
    path, _ = replaced
    expected = foreread.open(testbed.url(path.removeprefix("testbed/")), **testbed.options)
    assert read(fs.open(path)) == read(expected)


@pytest.mark.parametrize(
    "told",
    [
        lambda file: file.size,
        lambda file: file.details,
        lambda file: file.version,
        lambda file: file.seek(-10, 2),
        pickle.dumps,
    ],
)
def test_what_was_told_of_a_file_holds(
    fs: Any, replaced: tuple[str, bytes], told: Callable[[Any], Any]
) -> None:
    path, _ = replaced
    file = fs.open(path)
    told(file)
    with pytest.raises(foreread.VersionChanged):
        file.read(10)


def test_a_size_that_is_the_same_may_have_been_told(fs: Any, testbed: Testbed) -> None:
    testbed.set_object("same-size", 1_000, 1)
    fs.invalidate_cache()
    file = fs.open("testbed/same-size")
    assert file.seek(0, 2) == file.size == 1_000
    testbed.set_object("same-size", 1_000, 2)
    file.seek(-10, 2)
    assert file.read() == testbed.bytes_of("same-size")[-10:]


@pytest.mark.parametrize("size", [1_000, 2 << 20])
def test_a_copy_of_many_is_of_the_versions_that_are_there(
    fs: Any, testbed: Testbed, tmp_path: Path, size: int
) -> None:
    folder = f"many-{size}"
    names = [f"{folder}/{nth}" for nth in range(10)]
    testbed.set_objects(names, size)
    fs.invalidate_cache()
    assert len(fs.ls(f"testbed/{folder}")) == 10
    for name in names:
        fs.info(f"testbed/{name}")
    testbed.set_object(names[4], size + 500, 2)
    fs.get(f"testbed/{folder}", str(tmp_path / "to"), recursive=True)
    for name in names:
        copied = tmp_path / "to" / name.removeprefix(f"{folder}/")
        assert copied.read_bytes() == testbed.bytes_of(name)


def test_a_target_may_take_a_part_of_a_piece(fs: Any, testbed: Testbed) -> None:
    class Target(io.RawIOBase):
        taken = b""

        def write(self, piece: Any) -> int:
            self.taken += bytes(piece[:300])
            return min(len(piece), 300)

    testbed.set_object("in-parts", 1_000)
    fs.invalidate_cache()
    target, told = Target(), fsspec.callbacks.Callback()
    fs.get_file("testbed/in-parts", "", outfile=target, callback=told)
    assert target.taken == testbed.bytes_of("in-parts")
    assert told.value == told.size == 1_000


def test_threads_that_read_first_read_one_version(fs: Any, testbed: Testbed) -> None:
    for nth in range(30):
        key = f"raced/{nth}"
        testbed.set_object(key, 1_000, 1)
        fs.invalidate_cache()
        fs.info(f"testbed/{key}")
        file = fs.open(f"testbed/{key}")
        testbed.set_object(key, 1_500, 2)
        found: list[bytes] = []

        def read(file: Any = file, found: list[bytes] = found) -> None:
            for _ in range(5):
                found.append(file.read_at(0, 2_000))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(found) == {testbed.bytes_of(key)}
        assert len(found) == 20


def test_a_file_that_is_closed_in_its_first_read_stays_closed(
    fs: Any, replaced: tuple[str, bytes], monkeypatch: Any
) -> None:
    file = fs.open(replaced[0])
    afresh = fs._handle

    def handle(path: str, fresh: bool = False) -> Any:
        found = afresh(path, fresh)
        file.close()
        return found

    monkeypatch.setattr(fs, "_handle", handle)
    with pytest.raises((ValueError, foreread.VersionChanged)):
        file.read(10)
    assert file.closed and file._handle is None
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 10)

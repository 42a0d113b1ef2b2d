"""Files: bytes, positions, errors, versions, and what the storage is asked for."""

from __future__ import annotations

import array
import ctypes
import errno
import functools
import io
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreread
from conftest import Testbed


def test_bytes_are_those_of_the_object(testbed: Testbed, big: bytes) -> None:
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        assert isinstance(file, io.RawIOBase)
        assert file.size == len(big) == 64 << 20
        assert file.read_at(0, 4096) == big[:4096]
        assert file.read_at(12345, 100) == big[12345:12445]
        assert file.read_at(len(big) - 10, 100) == big[-10:]
        assert file.read_at(len(big) + 10, 100) == b""
        assert file.read() == big
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_readinto_fills_the_buffer(testbed: Testbed, big: bytes) -> None:
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        buffer = bytearray(10 << 20)
        file.seek(5)
        assert file.readinto(buffer) == len(buffer)
        assert buffer == big[5 : 5 + len(buffer)]
        assert file.tell() == 5 + len(buffer)
        file.seek(-7, os.SEEK_END)
        assert file.readinto(buffer) == 7
        assert buffer[:7] == big[-7:]
        assert file.readinto(buffer) == 0
        assert file.read_into_at(100, memoryview(buffer)[10:20]) == 10
        assert buffer[10:20] == big[100:110]


def _bytes(buffer: Any) -> bytes:
    # numpy has no format for times.
    return buffer.tobytes() if isinstance(buffer, np.ndarray) else bytes(buffer)


def _buffers() -> list[tuple[Any, int]]:
    """Buffers of items that are no u8, and how many bytes each has."""
    return [
        (np.zeros(1000, "f4"), 4000),
        (np.zeros((10, 10), "i1"), 100),
        (np.zeros(5, "M8[s]"), 40),
        (np.zeros(3, "f4,i2"), 18),
        (array.array("i", [0] * 10), 40),
        ((ctypes.c_char * 16)(), 16),
        (ctypes.c_double(), 8),
        (memoryview(np.zeros(1000, "f8"))[10:20], 80),
        (mmap.mmap(-1, 4096), 4096),
        (np.zeros(300_000, "f8"), 2_400_000),
        (np.zeros(0, "f4"), 0),
    ]


@pytest.mark.parametrize("nth", range(len(_buffers())))
def test_a_buffer_has_any_items(testbed: Testbed, big: bytes, nth: int) -> None:
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        buffer, length = _buffers()[nth]
        file.seek(100)
        assert file.readinto(buffer) == length
        assert _bytes(buffer) == big[100 : 100 + length]
        assert file.tell() == 100 + length
        buffer, length = _buffers()[nth]
        assert file.read_into_at(7, buffer) == length
        assert _bytes(buffer) == big[7 : 7 + length]


def test_a_buffer_that_cannot_be_filled_is_an_error(testbed: Testbed) -> None:
    fixed = np.zeros(4)
    fixed.flags.writeable = False
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        for fill in (file.readinto, functools.partial(file.read_into_at, 0)):
            for wrong, text in (
                (b"abc", "bytes is read-only"),
                (fixed, "ndarray is read-only"),
                (memoryview(b"abc"), "memoryview is read-only"),
                (5, "int has none"),
                ("text", "str has none"),
            ):
                with pytest.raises(TypeError, match=text):
                    fill(wrong)
            for wrong in (
                np.zeros(10)[::2],
                np.zeros((4, 4), order="F"),
                memoryview(bytearray(9))[::3],
            ):
                with pytest.raises(BufferError, match="not C-contiguous"):
                    fill(wrong)
        assert file.tell() == 0


def test_a_buffer_is_held_while_it_is_filled(testbed: Testbed) -> None:
    testbed.set_object("held", 1 << 20)
    expected = testbed.bytes_of("held")
    buffer = bytearray(1 << 20)
    with foreread.open(testbed.url("held"), **testbed.options) as file:
        testbed.reset()
        testbed.faults("stall,kind=get,count=1")
        thread = threading.Thread(target=file.readinto, args=(buffer,))
        thread.start()
        while not testbed.counters()["in_flight"]:
            pass
        with pytest.raises(BufferError):
            buffer.clear()
        testbed.faults()
        thread.join(60)
    assert buffer == expected
    buffer.clear()


def test_an_offset_that_is_too_large_is_an_error(testbed: Testbed) -> None:
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        assert file.read_at((1 << 63) - 1, 5) == b""
        for call in (
            lambda: file.read_at(1 << 63, 5),
            lambda: file.read_at(0, 1 << 63),
            lambda: file.read_at(-(1 << 63) - 1, 5),
            lambda: file.read_into_at(1 << 64, bytearray(5)),
            lambda: file.read_ranges([(0, 5), (1 << 63, 5)]),
        ):
            with pytest.raises(ValueError, match=r"below 2\*\*63"):
                call()
        with pytest.raises(TypeError):
            file.read_at("0", 5)  # type: ignore[arg-type]


def test_ranges_reach_the_storage_together(testbed: Testbed) -> None:
    testbed.set_object("ranges", 64 << 20)
    big = testbed.bytes_of("ranges")
    # No three of them are at equal distances: nothing follows from them.
    ranges = [((122 * place + place * place % 61) << 14, 4096) for place in range(1, 31)]
    with foreread.open(testbed.url("ranges"), **testbed.options) as file:
        testbed.reset()
        found = file.read_ranges(ranges)
        counters = testbed.counters()
    assert found == [big[at : at + length] for at, length in ranges]
    assert counters["get"] == len(ranges)
    assert counters["object_bytes_sent"] == len(ranges) * 4096
    assert counters["in_flight_max"] > 1


def test_adjacent_ranges_share_a_request(testbed: Testbed) -> None:
    testbed.set_object("adjacent", 1 << 20)
    data = testbed.bytes_of("adjacent")
    with foreread.open(testbed.url("adjacent"), **testbed.options) as file:
        testbed.reset()
        ranges = [(place * 4096, 4096) for place in range(16)]
        assert file.read_ranges(ranges) == [data[at : at + length] for at, length in ranges]
        assert testbed.counters()["get"] < 16
        assert file.read_ranges([]) == []
        assert file.read_ranges([(5, 0), (1 << 20, 5)]) == [b"", b""]


def test_a_set_may_be_larger_than_the_budget(testbed: Testbed, big: bytes) -> None:
    before = foreread.configure()
    assert foreread.configure(memory="16MiB") == 16 << 20
    try:
        with foreread.open(testbed.url("big"), **testbed.options) as file:
            length = 3 << 20
            ranges = [(at, length) for at in range(0, 60 << 20, length)]
            assert file.read_ranges(ranges) == [big[at : at + length] for at, _ in ranges]
    finally:
        foreread.configure(memory=before)


def test_forward_reads_are_read_ahead(testbed: Testbed, big: bytes) -> None:
    testbed.set_object("forward", 32 << 20)
    with foreread.open(testbed.url("forward"), **testbed.options) as file:
        while file.read(1 << 16):
            pass
    counters = testbed.counters()
    assert counters["object_bytes_sent"] == 32 << 20
    assert counters["get"] < 100


def test_errors_are_pythons(testbed: Testbed) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        foreread.open(testbed.url("nothing"), **testbed.options)
    assert missing.value.errno == errno.ENOENT
    assert "nothing" in str(missing.value)
    wrong = {**testbed.options, "secret": "wrong"}
    with pytest.raises(PermissionError):
        foreread.open(testbed.url("small"), **wrong)
    with pytest.raises(ValueError, match="known are s3://BUCKET"):
        foreread.open("ftp://host/file")
    with pytest.raises(ValueError, match="rb"):
        foreread.open(testbed.url("small"), "wb", **testbed.options)
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        for call in (lambda: file.read_at(-1, 5), lambda: file.read_at(0, -5)):
            with pytest.raises(ValueError, match="negative"):
                call()
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)


def test_an_unknown_option_is_told_the_known_ones(testbed: Testbed) -> None:
    with pytest.raises(TypeError, match=r"'endpont'; known are .*endpoint"):
        foreread.open(testbed.url("small"), endpont="x")
    with pytest.raises(TypeError, match="known are memory"):
        foreread.configure(memroy="1GiB")
    with pytest.raises(TypeError, match="given twice"):
        foreread.open(testbed.url("small"), key="a", client_kwargs={"aws_access_key_id": "b"})
    with pytest.raises(ValueError, match="2GiB"):
        foreread.configure(memory="much")
    with pytest.raises(ValueError, match="below the least"):
        foreread.configure(memory=1)


def test_names_of_s3fs_are_taken(testbed: Testbed) -> None:
    options = {
        "anon": False,
        "key": "testbed",
        "client_kwargs": {
            "endpoint_url": testbed.endpoint,
            "aws_secret_access_key": "testbedsecret",
        },
    }
    with foreread.open(testbed.url("tree/a"), **options) as file:
        assert len(file.read()) == 10


def test_a_replaced_object_is_an_error(testbed: Testbed) -> None:
    # Longer than what comes whole with a first read.
    testbed.set_object("replaced", 8 << 20, 1)
    old = testbed.bytes_of("replaced")
    with foreread.open(testbed.url("replaced"), **testbed.options) as file:
        assert file.read_at(0, 100) == old[:100]
        version = file.version
        testbed.set_object("replaced", 8 << 20, 2)
        with pytest.raises(foreread.VersionChanged) as changed:
            file.read_at(6_900_000, 100)
        assert changed.value.errno == errno.ESTALE
        assert isinstance(changed.value, OSError)
        with foreread.open(testbed.url("replaced"), **testbed.options) as again:
            assert again.version != version
            assert (
                again.read_at(6_900_000, 100) == testbed.bytes_of("replaced")[6_900_000:6_900_100]
            )


def test_versions_are_values(testbed: Testbed) -> None:
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        version = file.version
        assert version == file.version
        assert hash(version) == hash(file.version)
        assert version.size == 100_000
        assert pickle.loads(pickle.dumps(version)) == version
        assert "size=100000" in repr(version)


def test_a_pickled_file_reads_the_same_version(testbed: Testbed) -> None:
    testbed.set_object("pickled", 8 << 20, 1)
    with foreread.open(testbed.url("pickled"), **testbed.options) as file:
        file.seek(1000)
        expected = file.read_at(1000, 50)
        sent = pickle.dumps(file)
        testbed.reset()
        again = pickle.loads(sent)
        assert (again.tell(), again.version, again.read(50)) == (1000, file.version, expected)
        assert testbed.counters()["head"] == 0
        testbed.set_object("pickled", 8 << 20, 2)
        with pytest.raises(foreread.VersionChanged):
            pickle.loads(sent).read_at(6_800_000, 10)


def test_one_engine_serves_a_store(testbed: Testbed) -> None:
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        data = file.read()
    testbed.reset()
    # The same store with the same credentials: what was read is there.
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        assert file.read() == data
    assert testbed.counters()["get"] == 0
    stores = [store for store, _ in foreread.stats()["stores"]]
    assert stores.count("s3://testbed") >= 1
    assert foreread.stats()["reads"] > 0


def test_threads_share_a_file(testbed: Testbed, big: bytes) -> None:
    wrong: list[int] = []
    with foreread.open(testbed.url("big"), **testbed.options) as file:

        def read(seed: int) -> None:
            for turn in range(50):
                at = (seed * 7919 + turn * 104729 * 13) % (len(big) - 5000)
                if file.read_at(at, 5000) != big[at : at + 5000]:
                    wrong.append(at)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_the_gil_is_free_while_a_thread_waits(testbed: Testbed) -> None:
    testbed.set_object("stalled", 1 << 20)
    with foreread.open(testbed.url("stalled"), **testbed.options) as file:
        testbed.faults("stall,kind=get,count=1")
        turned = threading.Event()
        done = threading.Event()

        def read() -> None:
            try:
                file.read_at(0, 100)
            finally:
                done.set()

        thread = threading.Thread(target=read)
        thread.start()
        # This thread runs while the other one waits for storage that says nothing.
        for _ in range(1000):
            turned.set()
        assert turned.is_set()
        testbed.faults()
        thread.join(60)
        assert done.is_set()


INTERRUPTED = """
import os, signal, sys, threading
import foreread
file = foreread.open(sys.argv[1], endpoint=sys.argv[2], key="testbed", secret="testbedsecret")
print("open", flush=True)
sys.stdin.readline()
try:
    print("reading", flush=True)
    {read}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "read",
    ["file.read_at(0, 100)", "file.read()", "file.read_ranges([(0, 9), (500000, 9)])"],
)
def test_ctrl_c_ends_a_wait(testbed: Testbed, read: str) -> None:
    testbed.set_object("silent", 1 << 20)
    script = INTERRUPTED.format(read=read)
    command = [sys.executable, "-c", script, testbed.url("silent"), testbed.endpoint]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "open\n"
        testbed.reset()
        testbed.faults("stall,kind=get")
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "reading\n"
        # The request is at the storage: the program waits.
        while not testbed.counters()["in_flight"]:
            pass
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(30) == 0


def test_local_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "some file"
    path.write_bytes(bytes(range(256)) * 100)
    for url in (str(path), path, f"file://{path}"):
        with foreread.open(url) as file:
            assert file.name == str(url)
            assert file.read_at(10, 5) == bytes(range(10, 15))
            assert file.size == 25600
    with pytest.raises(FileNotFoundError):
        foreread.open(str(tmp_path / "nothing"))


def test_importing_is_light() -> None:
    script = "import sys, foreread; print([m for m in ('asyncio', 'fsspec', 'numpy', 'typing') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr


def test_a_web_server_is_read(testbed: Testbed, big: bytes) -> None:
    with foreread.open(f"{testbed.endpoint}/http/big") as file:
        assert file.read_at(1000, 50) == big[1000:1050]

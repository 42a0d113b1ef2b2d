"""Recordings of a process: every read is in them, and the simulator takes them."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

import foreread
from conftest import ROOT, Testbed


def lines(path: Path) -> tuple[dict[int, tuple[int, str]], list[tuple[int, ...]]]:
    """The files (size, name) and the reads (ns, file, reader, offset, length) of a recording."""
    head, *rest = path.read_text().splitlines()
    assert head == "foreread-trace 1"
    files, reads = {}, []
    for line in rest:
        words = line.split(" ")
        if words[0] == "file":
            files[int(words[1])] = (int(words[2]), words[3])
        else:
            reads.append(tuple(map(int, words)))
    return files, reads


def test_each_read_is_recorded_once(testbed: Testbed, tmp_path: Path) -> None:
    path = tmp_path / "r.trace"
    with foreread.open(testbed.url("big"), **testbed.options) as before:
        with foreread.trace(path) as recording:
            before.read_at(5, 10)
            with foreread.open(testbed.url("small"), **testbed.options) as file:
                for at in range(0, 50_000, 1000):
                    file.read_at(at, 1000)
        before.read_at(50_000_000, 10)
    files, reads = lines(path)
    assert recording.reads == len(reads) == 51 and recording.lost == 0
    assert sorted(files.values()) == [
        (100_000, testbed.url("small")),
        (64 << 20, testbed.url("big")),
    ]
    assert reads == sorted(reads), "in the order of their times"
    by_name = {name: number for number, (_, name) in files.items()}
    assert [read[3:] for read in reads if read[1] == by_name[testbed.url("big")]] == [(5, 10)]
    small = [read[3:] for read in reads if read[1] == by_name[testbed.url("small")]]
    assert small == [(at, 1000) for at in range(0, 50_000, 1000)]


def test_stores_that_come_later_and_threads_are_recorded(testbed: Testbed, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(bytes(100_000))
    path = tmp_path / "r.trace"
    with foreread.trace(path):
        # An engine of its own.
        with foreread.open(str(local)) as file:
            file.read_at(0, 100)

        def read(key: str) -> None:
            with foreread.open(testbed.url(key), **testbed.options) as file:
                for at in range(20):
                    file.read_at(at * 500, 500)

        threads = [threading.Thread(target=read, args=(key,)) for key in ("small", "big")]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    files, reads = lines(path)
    assert len(files) >= 2 and len(reads) >= 40
    assert all(offset + length <= files[file][0] for _, file, _, offset, length in reads)


def test_one_at_a_time(tmp_path: Path) -> None:
    with foreread.trace(tmp_path / "a"):
        with pytest.raises(RuntimeError, match="already"), foreread.trace(tmp_path / "b"):
            pass
    with foreread.trace(tmp_path / "c"):
        pass
    with pytest.raises(FileNotFoundError):
        foreread.trace(tmp_path / "none" / "d").__enter__()
    with foreread.trace(tmp_path / "e"):
        pass


def test_a_full_disk_is_reported_and_ends_the_recording(testbed: Testbed, tmp_path: Path) -> None:
    with foreread.open(testbed.url("small"), **testbed.options) as file:
        with pytest.raises(OSError, match="No space left"), foreread.trace("/dev/full"):
            file.read_at(0, 10)
        with foreread.trace(tmp_path / "r.trace") as recording:
            file.read_at(0, 10)
    assert recording.reads == 1


def test_a_child_records_for_itself(testbed: Testbed, tmp_path: Path) -> None:
    with foreread.trace(tmp_path / "parent") as recording:
        with foreread.open(testbed.url("small"), **testbed.options) as file:
            file.read_at(0, 10)
            child = os.fork()
            if child == 0:
                try:
                    with foreread.trace(tmp_path / "child") as own:
                        file.read_at(10, 10)
                    os._exit(0 if own.reads == 1 else 1)
                except BaseException:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    assert recording.reads == 1
    assert len(lines(tmp_path / "child")[1]) == 1


def test_the_simulator_takes_it(testbed: Testbed, tmp_path: Path) -> None:
    path = tmp_path / "r.trace"
    with foreread.trace(path), foreread.open(testbed.url("big"), **testbed.options) as file:
        for at in range(0, 8 << 20, 1 << 16):
            file.read_at(at, 1 << 16)
    binary = os.environ.get("FOREREAD_BIN", str(ROOT / "target/release/foreread"))
    command = [binary, "replay", str(path), "--no-wait", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr

"""Processes: forks, spawned children, pickling, the interpreter's exit."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import foreread
from conftest import Testbed


def _read(file: Any, offset: int, length: int) -> bytes:
    data: bytes = file.read_at(offset, length)
    return data


def _in_child(call: Any) -> bytes:
    """What `call` returns in a child of a fork, or an empty text if it fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, call())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return data


def test_a_child_reads_on_and_the_parent_does_not_notice(testbed: Testbed, big: bytes) -> None:
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        assert file.read(1000) == big[:1000]
        reads = foreread.stats()["reads"]

        def child() -> bytes:
            # The position, what is resident in the parent, and what is not.
            return file.read(1000) + file.read_at(50 << 20, 1000)

        assert _in_child(child) == big[1000:2000] + big[50 << 20 : (50 << 20) + 1000]
        # Which were answered here.
        assert foreread.stats()["reads"] == reads + 2
        assert file.tell() == 1000
        assert file.read(1000) == big[1000:2000]


def test_a_child_opens_and_forks_again(testbed: Testbed, big: bytes) -> None:
    file = foreread.open(testbed.url("big"), **testbed.options)
    file.read_at(0, 10)

    def grandchild() -> bytes:
        with foreread.open(testbed.url("big"), **testbed.options) as own:
            data: bytes = own.read_at(77, 10) + file.read_at(99, 10)
            return data

    assert _in_child(lambda: _in_child(grandchild)) == big[77:87] + big[99:109]
    assert file.read_ranges([(5, 5)]) == [big[5:10]]


def test_a_child_keeps_the_version(testbed: Testbed) -> None:
    testbed.set_object("kept", 1 << 20, 1)
    file = foreread.open(testbed.url("kept"), **testbed.options)
    testbed.set_object("kept", 1 << 20, 2)

    def child() -> bytes:
        try:
            file.read_at(0, 10)
        except foreread.VersionChanged:
            return b"changed"
        return b"read"

    assert _in_child(child) == b"changed"


def test_a_child_has_a_budget_and_counters_of_its_own(testbed: Testbed) -> None:
    before = foreread.configure()
    foreread.configure(memory="48MiB")
    try:
        file = foreread.open(testbed.url("small"), share=False, **testbed.options)
        file.read()

        def child() -> bytes:
            first = foreread.stats()["reads"]
            file.read_at(0, 10)
            return f"{first} {foreread.stats()['reads']} {foreread.configure()}".encode()

        assert _in_child(child) == f"0 1 {48 << 20}".encode()
    finally:
        foreread.configure(memory=before)


def test_a_fork_amid_reads_of_other_threads(testbed: Testbed, big: bytes) -> None:
    file = foreread.open(testbed.url("big"), **testbed.options)
    ends = threading.Event()

    def read() -> None:
        at = 0
        while not ends.is_set():
            at = (at + 7_919_000) % (60 << 20)
            file.read_at(at, 4096)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(20):
            at = turn << 20
            assert _in_child(lambda at=at: file.read_at(at, 100)) == big[at : at + 100]
    finally:
        ends.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_read_a_file_that_they_are_sent(testbed: Testbed, big: bytes, method: str) -> None:
    context = multiprocessing.get_context(method)
    with foreread.open(testbed.url("big"), **testbed.options) as file:
        file.read_at(0, 10)
        with context.Pool(2) as pool:
            asked = [(file, at, 1000) for at in (0, 1_000_000, 33_000_000)]
            found = pool.starmap_async(_read, asked).get(60)
        assert found == [big[at : at + 1000] for _, at, _ in asked]
        assert file.read_at(5, 5) == big[5:10]


EXITS = {
    "open files": "file = foreread.open(url, **options); file.read_at(0, 100)",
    "a thread that waits": """
import threading, time
file = foreread.open(url, **options)
threading.Thread(target=lambda: file.read_at(800_000, 100), daemon=True).start()
time.sleep(0.2)
""",
    "asyncio that waits": """
import asyncio
async def main():
    file = await foreread.open_async(url, **options)
    asyncio.ensure_future(file.read_at(800_000, 100))
    await asyncio.sleep(0.2)
asyncio.run(main())
""",
    "an exception": "file = foreread.open(url, **options); print('before', flush=True); raise SystemExit(0)",
    "a child that ends": """
import os
file = foreread.open(url, **options); file.read_at(0, 100)
if os.fork() == 0:
    file.read_at(100, 100)
    raise SystemExit(0)
assert os.wait()[1] == 0
""",
}


@pytest.mark.parametrize("name", EXITS)
def test_the_interpreter_exits(testbed: Testbed, name: str) -> None:
    testbed.set_object("exits", 1 << 20)
    waits = "waits" in name
    if waits:
        testbed.faults("stall,kind=get,key=exits")
    script = f"import foreread\nurl, options = {testbed.url('exits')!r}, {testbed.options!r}\n{EXITS[name]}\n"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "Fatal" not in ended.stderr

"""asyncio: awaited on the caller's loop, without a thread that waits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import foreread
from conftest import Testbed


def test_reads_are_awaited(testbed: Testbed, big: bytes) -> None:
    async def main() -> None:
        async with foreread.open_async(testbed.url("big"), **testbed.options) as file:
            assert (file.size, file.closed) == (len(big), False)
            assert await file.read_at(0, 4096) == big[:4096]
            assert await file.read_at(len(big) - 5, 100) == big[-5:]
            assert await file.read_at(5 << 20, 5 << 20) == big[5 << 20 : 10 << 20]
            ranges = [(at << 20, 1000) for at in range(0, 60, 7)]
            assert await file.read_ranges(ranges) == [big[at : at + size] for at, size in ranges]
            assert await file.read_ranges([]) == []
        assert file.closed
        with pytest.raises(ValueError, match="closed"):
            await file.read_at(0, 1)
        file = await foreread.open_async(testbed.url("big"), **testbed.options)
        assert file.version.size == len(big)

    asyncio.run(main())


def test_a_local_path_may_be_an_object(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some")

    async def main() -> None:
        async with foreread.open_async(tmp_path / "file") as file:
            assert (file.name, await file.read_at(1, 9)) == (str(tmp_path / "file"), b"ome")
            with pytest.raises(ValueError, match=r"below 2\*\*63"):
                await file.read_at(1 << 63, 1)
            with pytest.raises(ValueError, match=r"below 2\*\*63"):
                await file.read_ranges([(0, 1 << 63)])

    asyncio.run(main())


def test_many_are_in_flight(testbed: Testbed) -> None:
    testbed.set_object("many", 64 << 20)

    async def main() -> None:
        async with foreread.open_async(testbed.url("many"), **testbed.options) as file:
            testbed.reset()
            places = [(index * index * 7919 * 4096) % (60 << 20) for index in range(64)]
            pieces = await asyncio.gather(*(file.read_at(at, 4096) for at in places))
            assert all(len(piece) == 4096 for piece in pieces)

    asyncio.run(main())
    counters = testbed.counters()
    assert counters["in_flight_max"] > 8
    # No thread but the main one and the one that wakes loops runs Python.
    assert threading.active_count() == 1


def test_errors_are_raised_where_they_are_awaited(testbed: Testbed) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await foreread.open_async(testbed.url("nothing"), **testbed.options)
        testbed.set_object("changes", 1 << 20, 1)
        file = await foreread.open_async(testbed.url("changes"), **testbed.options)
        testbed.set_object("changes", 1 << 20, 2)
        with pytest.raises(foreread.VersionChanged):
            await file.read_at(0, 10)
        with pytest.raises(foreread.VersionChanged):
            await file.read_ranges([(0, 10), (500_000, 10)])
        with pytest.raises(ValueError, match="negative"):
            await file.read_at(-1, 10)

    asyncio.run(main())


def test_a_cancelled_read_delivers_nothing(testbed: Testbed) -> None:
    testbed.set_object("cancelled", 1 << 20)
    data = testbed.bytes_of("cancelled")

    async def main() -> None:
        file = await foreread.open_async(testbed.url("cancelled"), **testbed.options)
        # A hedge is late as well.
        testbed.faults("stall=1s,kind=get")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(file.read_at(0, 1000), 0.05)
        task = asyncio.ensure_future(file.read_ranges([(0, 10), (900_000, 10)]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        testbed.faults()
        assert await file.read_at(0, 1000) == data[:1000]
        assert await file.read_at(900_000, 10) == data[900_000:900_010]

    asyncio.run(main())


def test_loops_come_and_go(testbed: Testbed, big: bytes) -> None:
    async def main(at: int) -> None:
        async with foreread.open_async(testbed.url("big"), **testbed.options) as file:
            assert await file.read_at(at, 100) == big[at : at + 100]

    for turn in range(5):
        asyncio.run(main(turn << 20))
    threads = [
        threading.Thread(target=asyncio.run, args=(main(turn << 21),)) for turn in range(1, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_loop_that_closes_with_reads_in_flight(testbed: Testbed) -> None:
    script = """
import asyncio, sys, foreread
async def main():
    file = await foreread.open_async(sys.argv[1], endpoint=sys.argv[2], key="testbed", secret="testbedsecret")
    for at in range(20):
        asyncio.ensure_future(file.read_at(at * 1_000_000, 100))
    await asyncio.sleep(0)
for _ in range(5):
    asyncio.run(main())
print("over")
"""
    command = [sys.executable, "-c", script, testbed.url("big"), testbed.endpoint]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")

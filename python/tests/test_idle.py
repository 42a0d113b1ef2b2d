"""Engines that nothing uses any more end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_share import Other

import foreread
from conftest import Testbed
from foreread._native import end_idle
from foreread.fsspec import ForereadFileSystem

#: Engines that nothing uses and that are kept, in src/process.rs, the one of these that was used
#: last, and one that is made.
KEPT = 32 + 2


@pytest.fixture
def used() -> int:
    """How many engines of this process are in use, or are the last one that was."""
    return end_idle(0)


def _read(testbed: Testbed, nth: int) -> bytes:
    """Reads with credentials of its own."""
    with foreread.open(testbed.url("small"), **testbed.options, token=f"token-{nth}") as file:
        data: bytes = file.read()
    return data


def test_credentials_that_change_leave_few_engines(testbed: Testbed, used: int) -> None:
    expected = testbed.bytes_of("small")
    for nth in range(45):
        assert _read(testbed, nth) == expected
    assert len(foreread.stats()["stores"]) <= used + KEPT
    threads, descriptors = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    assert end_idle(3600) <= used + KEPT
    assert end_idle(0) <= used + 1
    # Threads that accept others end a little later.
    assert len(os.listdir("/proc/self/task")) < threads
    assert len(os.listdir("/proc/self/fd")) < descriptors


def test_the_one_that_was_used_last_stays(testbed: Testbed, used: int) -> None:
    _read(testbed, 100)
    _read(testbed, 101)
    end_idle(0)
    testbed.reset()
    _read(testbed, 101)
    assert testbed.counters()["get"] == 0, "what was read is still there"


def test_what_is_used_does_not_end(testbed: Testbed, big: bytes, used: int) -> None:
    options = [{**testbed.options, "token": f"token-{nth}"} for nth in range(200, 204)]
    file = foreread.open(testbed.url("big"), **options[0])
    file.read_at(0, 10)
    fs = ForereadFileSystem("s3", skip_instance_cache=True, **options[1])
    fs.ls("testbed")
    array = foreread.map(testbed.url("big"), np.uint8, **options[2])
    assert array[5] == big[5]
    for nth in range(KEPT + 5):
        _read(testbed, nth)
    assert end_idle(0) >= 3
    assert file.read_at(40 << 20, 100) == big[40 << 20 :][:100]
    assert fs.cat_file("testbed/big", 30 << 20, (30 << 20) + 9) == big[30 << 20 :][:9]
    assert bytes(array[50 << 20 : (50 << 20) + 9]) == big[50 << 20 :][:9]


def test_an_engine_that_has_ended_is_made_again(testbed: Testbed, used: int) -> None:
    expected = testbed.bytes_of("small")
    for _ in range(3):
        for nth in (300, 301):
            assert _read(testbed, nth) == expected
            end_idle(0)
            assert foreread.stats()["stores"][-1][1]["role"] in ("serves", "alone")


def _read_two(options: dict[str, Any], url: str) -> int:
    for region in ("sa-east-1", "sa-west-1"):
        with foreread.open(url, **options | {"region": region}) as file:
            file.read_at(0, 100)
    return end_idle(0)


def _left(options: dict[str, Any]) -> tuple[int, int]:
    return end_idle(0), foreread.stats()["clients"]


@pytest.fixture
def others(testbed: Testbed) -> Iterator[list[Other]]:
    made = [Other({**testbed.options, "region": "sa-east-1"}) for _ in range(2)]
    yield made
    for other in made:
        other.kill()


def test_an_engine_that_others_read_through_does_not_end(
    testbed: Testbed, big: bytes, others: list[Other]
) -> None:
    url = testbed.url("big")
    serves, joins = others
    serves.ask("open", url)
    joins.ask("open", url)
    assert joins.ask("read", url, 0, 50) == big[:50]
    assert serves.ask("call", _read_two, url) == 2
    serves.ask("close", url)
    assert serves.ask("call", _left) == (2, 1)
    assert joins.ask("read", url, 30 << 20, 50) == big[30 << 20 :][:50]


def test_a_child_of_a_fork_reads_on(testbed: Testbed, big: bytes, used: int) -> None:
    file = foreread.open(testbed.url("big"), **testbed.options, token="token-400")
    file.read_at(0, 10)
    _read(testbed, 401)
    _read(testbed, 402)
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = file.read_at(20 << 20, 10) == big[20 << 20 :][:10] and end_idle(0) == 1
            del file
            _read(testbed, 401)
        finally:
            os._exit(0 if right else 1)
    end_idle(0)
    assert os.waitpid(child, 0)[1] == 0
    assert file.read_at(50 << 20, 10) == big[50 << 20 :][:10]

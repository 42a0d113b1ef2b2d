"""What was read once is on a local disk, for later processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import foreread
from conftest import Testbed

#: Reads an object in a process of its own, not faster than the folder takes it: what comes too
#: fast is not kept. The file is open when the process ends.
READS = """
import time, foreread
foreread.configure({configure})
file = foreread.open("s3://testbed/small", share=False, **{options!r})
data = file.read()
((_, counters),) = foreread.stats()["stores"]
print(len(data), hash(data), counters["cache"] is not None)
"""


def reads(testbed: Testbed, configure: str, **environment: str) -> str:
    code = READS.format(configure=configure, options=testbed.options)
    environment = {**os.environ, "PYTHONHASHSEED": "1", **environment}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def nothing_configured() -> Iterator[None]:
    yield
    foreread.configure(cache="")


def test_what_was_read_is_local_for_the_next_process(testbed: Testbed, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = reads(testbed, f"cache={str(folder)!r}, cache_size='1GiB'")
    assert first.endswith("True\n") and testbed.counters()["get"] > 0
    testbed.reset()
    assert reads(testbed, f"cache={str(folder)!r}, cache_bypass=False") == first
    assert reads(testbed, "", FOREREAD_CACHE=str(folder), FOREREAD_CACHE_SIZE="1GiB") == first
    assert testbed.counters()["get"] == 0
    assert reads(testbed, "").endswith("False\n") and testbed.counters()["get"] > 0


def test_a_folder_can_be_encrypted(testbed: Testbed, tmp_path: Path) -> None:
    folder, key = tmp_path / "cache", tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    configure = f"cache={str(folder)!r}, cache_encrypt={str(key)!r}, cache_bypass=False"
    first = reads(testbed, configure)
    testbed.reset()
    assert reads(testbed, configure) == first and testbed.counters()["get"] == 0
    page = testbed.bytes_of("small")[:64]
    assert all(page not in path.read_bytes() for path in folder.iterdir())


@pytest.mark.usefixtures("nothing_configured")
def test_a_folder_that_cannot_be_used_is_an_error_of_the_open(
    testbed: Testbed, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years")
    foreread.configure(cache=tmp_path)
    # A store of its own: one that is open keeps what it has.
    options = {**testbed.options, "region": "nowhere-1", "share": False}
    with pytest.raises(ValueError, match="is not a cache and not empty"):
        foreread.open("s3://testbed/big", **options)
    foreread.configure(cache="")
    with foreread.open("s3://testbed/big", **options) as file:
        assert len(file.read(10)) == 10


def test_options_of_a_cache_go_with_its_folder() -> None:
    for option in ("cache_size", "cache_min_free", "cache_encrypt"):
        with pytest.raises(TypeError, match=f"{option} goes with cache"):
            foreread.configure(**{option: "1GiB"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="known are memory, cache, cache_size"):
        foreread.configure(cash="/tmp")
    with pytest.raises(ValueError, match="is no size"):
        foreread.configure(cache="/tmp/none", cache_size="much")

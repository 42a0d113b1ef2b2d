"""The command that measures: what it says of clients that it cannot run, and what its rows read
and ask for, on small data."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from conftest import OBJECTS, Testbed
from foreread.bench import __main__ as command
from foreread.bench import arrays, formats, reads, start, tables, tasks
from foreread.bench.clients import foreread_fs
from foreread.bench.row import Figures, Place


class Small:
    """A testbed with a directory, where rows run on small data."""

    def __init__(self, directory: Path, first_byte: str = "5ms") -> None:
        self.testbed = Testbed(OBJECTS, directory, first_byte)
        self.place = Place(self.testbed.endpoint, directory, 0.2)

    def ask(self, name: str, body: object = None) -> Any:
        return self.testbed._ask(name, body)

    def run(self, name: str, client: str) -> tuple[Figures, dict[str, int]]:
        """What a row did, and what it asked the storage for."""
        row = command.ROWS[name]
        for module in row.needs:
            pytest.importorskip(module)
        pytest.importorskip(command.CLIENTS[client] or "foreread")
        row.prepare(self, self.place)
        # Names that were made within the last second.
        foreread_fs(self.place).invalidate_cache()
        self.testbed.reset()
        return row.run(client, self.place), self.testbed.counters()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reads, "SIZE", 16 << 20)
        patch.setattr(reads, "PART", 256 << 10)
        patch.setattr(tables, "FILES", 2)
        patch.setattr(tables, "ROWS_OF_FILE", 160_000)
        patch.setattr(tables, "ROWS_OF_GROUP", 40_000)
        patch.setattr(formats, "SHAPE", (128, 32, 32))
        patch.setattr(formats, "CHUNK", (16, 16, 16))
        patch.setattr(formats, "TENSORS", 8)
        patch.setattr(formats, "TENSOR_BYTES", 64 << 10)
        made = Small(tmp_path_factory.mktemp("bench"))
        yield made
        made.testbed.stop()


@pytest.fixture(scope="module")
def far(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """The same so far away that the slowest client makes all requests while the first waits."""
    made = Small(tmp_path_factory.mktemp("far"), "400ms")
    yield made
    made.testbed.stop()


@pytest.fixture
def without_s3fs(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def found(name: str) -> ModuleSpec | None:
        return None if name == "s3fs" else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", found)


@pytest.mark.usefixtures("without_s3fs")
def test_a_client_that_is_not_installed_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "forward", "--clients", "foreread,s3fs"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "s3fs is not installed; install it with `pip install s3fs`" in capsys.readouterr().err


def test_an_unknown_row_or_client_is_named_with_those_that_are_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["sideways"], ["forward", "--clients", "curl"]):
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "'sideways' is unknown; known are forward, backward" in printed
    assert "'curl' is unknown; known are foreread, bare, s3fs" in printed


@pytest.mark.parametrize("client", ["foreread", "s3fs", "pyarrow"])
def test_listings_are_whole(monkeypatch: pytest.MonkeyPatch, small: Small, client: str) -> None:
    monkeypatch.setattr(reads, "KEYS", 300)
    monkeypatch.setattr(reads, "DIRECTORIES", 10)
    for row in ("ls", "find"):
        assert small.run(row, client)[0]["operations"] == 300


@pytest.mark.parametrize("row", ["forward", "backward", "streams-2"])
def test_the_bare_client_reads_the_object_once(small: Small, row: str) -> None:
    figures, counters = small.run(row, "bare")
    assert figures["bytes"] == counters["object_bytes_sent"] == reads.SIZE
    assert counters["get"] == reads.SIZE // reads.PART


@pytest.mark.parametrize("client", list(tasks.WAYS))
def test_tasks_read_what_they_ask_for(far: Small, client: str) -> None:
    figures, counters = far.run("tasks-4k", client)
    assert figures["bytes"] == figures["operations"] * 4096 > 0
    if client == "foreread":
        # What is asked for twice is in memory. So many reads of so small an object bring others.
        assert counters["object_bytes_sent"] <= reads.SIZE
    else:
        assert counters["object_bytes_sent"] == figures["bytes"]
    assert counters["in_flight_max"] > 8, "tasks wait at the same time"


@pytest.mark.parametrize("client", ["foreread", "pyarrow"])
@pytest.mark.parametrize("row", list(tables.ROWS))
def test_queries_of_tables_have_their_rows(small: Small, row: str, client: str) -> None:
    figures, counters = small.run(row, client)
    assert 0 < figures["bytes"] < 16 << 20
    # Tails of files, where the footers are, and what lies between columns.
    spare = tables.FILES * (64 << 10) + figures["bytes"] * 0.05
    if not row.startswith("duckdb"):
        assert counters["object_bytes_sent"] <= figures["bytes"] + spare


@pytest.mark.parametrize("client", formats.ALL)
@pytest.mark.parametrize("row", list(formats.ROWS))
def test_formats_are_read_whole(small: Small, row: str, client: str) -> None:
    figures, counters = small.run(row, client)
    size = 4 * formats.SHAPE[0] * formats.SHAPE[1] * formats.SHAPE[2]
    if row.startswith("safetensors"):
        size = formats.TENSORS * formats.TENSOR_BYTES
        size = size if row.endswith("all") else size // formats.PART
        assert size < figures["bytes"] < size + (4 << 10)
    elif not row.endswith("series"):
        assert figures["bytes"] == size
    if client == "foreread":
        # Nothing comes twice; what another row has read is in memory.
        place = small.place.directory
        name = {"z": "*.zarr/**/*", "s": "*.safetensors"}.get(row[0], "*.nc")
        there = sum(path.stat().st_size for path in place.glob(name) if path.is_file())
        assert counters["object_bytes_sent"] <= there
    else:
        assert counters["get"] > 0


def test_gathered_rows_are_right_in_less_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setattr(arrays, "SIZE", 8 << 20)
    monkeypatch.setattr(arrays, "BUDGET", 4 << 20)
    monkeypatch.setattr(arrays, "GATHERED", 512)
    place = Place("", tmp_path)
    for name, row in arrays.ROWS.items():
        for client in row.clients:
            figures = row.run(client, place)
            if name in ("array-sort", "array-cumsum"):
                assert figures["bytes"] == 8 << 20
            else:
                assert figures["operations"] == 512
    assert not os.listdir(tmp_path)


def test_an_import_brings_little_and_the_package_is_small(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "STARTS", 1)
    place = Place("", tmp_path)
    # It raises where asyncio, fsspec or numpy are brought.
    assert start.imported("foreread", place)["operations"] > 0
    assert start.wheel("foreread", place)["bytes"] > 0


def test_a_loader_reads_each_epoch(
    monkeypatch: pytest.MonkeyPatch, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from foreread.bench import loader

    monkeypatch.setattr(loader, "FILES", 200)
    monkeypatch.setattr(loader, "WORKERS", 2)
    monkeypatch.setattr(loader, "METHODS", ("fork", "spawn"))
    testbed.set_objects([loader.key(nth) for nth in range(200)], loader.FILE_BYTES)
    loader.loader(testbed.options, testbed._ask)
    epochs = capsys.readouterr().out.splitlines()
    assert len(epochs) == 4
    # What the first one has read is in memory.
    assert [" 0 GET" in epoch for epoch in epochs] == [False, True, False, True], epochs

"""The command that measures: what it says of clients that it cannot run."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

from conftest import Testbed
from foreread import bench


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
        bench.main()
    assert ended.value.code == 2
    assert "s3fs is not installed; install it with `pip install s3fs`" in capsys.readouterr().err


def test_an_unknown_row_or_client_is_named_with_those_that_are_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["sideways"], ["forward", "--clients", "curl"]):
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            bench.main()
        assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "'sideways' is unknown; known are forward, backward" in printed
    assert "'curl' is unknown; known are foreread, s3fs" in printed


@pytest.mark.parametrize("client", ["foreread", "s3fs", "pyarrow"])
def test_listings_are_whole(monkeypatch: pytest.MonkeyPatch, testbed: Testbed, client: str) -> None:
    monkeypatch.setattr(bench, "KEYS", 300)
    monkeypatch.setattr(bench, "DIRECTORIES", 10)
    for row in ("ls", "find"):
        testbed.set_objects(bench._keys(row), 1)
        assert bench.run(row, client, testbed.endpoint, 1)["operations"] == 300


def test_a_loader_reads_each_epoch(
    monkeypatch: pytest.MonkeyPatch, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from foreread import _loader

    monkeypatch.setattr(_loader, "FILES", 200)
    monkeypatch.setattr(_loader, "WORKERS", 2)
    monkeypatch.setattr(_loader, "METHODS", ("fork", "spawn"))
    testbed.set_objects([_loader.key(nth) for nth in range(200)], _loader.FILE_BYTES)
    _loader.loader(testbed.options, testbed._ask)
    epochs = capsys.readouterr().out.splitlines()
    assert len(epochs) == 4
    # What the first one has read is in memory.
    assert [" 0 GET" in epoch for epoch in epochs] == [False, True, False, True], epochs

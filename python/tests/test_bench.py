"""The command that measures: what it says of clients that it cannot run."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

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

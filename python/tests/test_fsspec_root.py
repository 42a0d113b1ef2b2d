"""What may be asked for in a bucket: its root, and odd names."""

from __future__ import annotations

from typing import Any

import pytest

import foreread
from conftest import Testbed
from foreread.fsspec import ForereadFileSystem


@pytest.fixture
def fs(testbed: Testbed) -> Any:
    return ForereadFileSystem("s3", skip_instance_cache=True, **testbed.options)


def test_a_root_that_may_not_be_listed_is_there(fs: Any, testbed: Testbed) -> None:
    # The first fault that applies happens.
    testbed.faults("status=404,kind=list,key=none/*", "status=403,kind=list")
    with pytest.raises(FileNotFoundError):
        fs.ls("testbed/none/below")
    lists = [each["key"] for each in testbed.requests() if each["kind"] == "list"]
    assert "" in lists, "it was asked whether there is a bucket"
    assert fs.find("testbed/none/below") == []
    for asked in (fs.ls, fs.find, fs.info):
        with pytest.raises(PermissionError):
            asked("testbed")


@pytest.mark.parametrize("name", ["x/../small", "./small", "../other/small", "/small"])
def test_odd_names_are_not_resolved(testbed: Testbed, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="cannot be asked for"):
        foreread.open(testbed.url(name), **testbed.options)

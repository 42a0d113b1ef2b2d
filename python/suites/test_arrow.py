"""pyarrow's tests for file systems, as its wheel has them: in front of s3fs and of local files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.tests.conftest import builtin_pickle, cloudpickle, pickle_module  # noqa: F401
from pyarrow.tests.test_fs import (  # noqa: F401
    allow_append_to_file,
    allow_move_dir,
    fs,
    pathfn,
    pickle_with_and_without_subtree_filesystem,
    test_copy_file,
    test_create_dir,
    test_delete_dir,
    test_delete_dir_contents,
    test_delete_dir_with_explicit_subdir,
    test_delete_file,
    test_filesystem_equals_none,
    test_filesystem_is_functional_after_pickling,
    test_filesystem_pickling,
    test_get_file_info,
    test_get_file_info_with_selector,
    test_move_directory,
    test_move_file,
    test_non_path_like_input_raises,
    test_normalize_path,
    test_open_append_stream,
    test_open_input_file,
    test_open_input_stream,
    test_open_input_stream_not_found,
    test_open_output_stream,
    test_open_output_stream_metadata,
)


@pytest.fixture
def s3(chained: Any, place: str) -> dict[str, Any]:
    """What pyarrow says of s3fs."""
    return {
        "fs": PyFileSystem(FSSpecHandler(chained)),
        "pathfn": f"{place}/".__add__,
        "allow_move_dir": False,
        "allow_append_to_file": True,
    }


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Any]:
    """What pyarrow says of fsspec's local files."""
    return {
        "fs": PyFileSystem(FSSpecHandler(fsspec.filesystem("foreread", target_protocol="file"))),
        "pathfn": lambda name: (tmp_path / name).as_posix(),
        "allow_move_dir": True,
        "allow_append_to_file": True,
    }


@pytest.fixture(params=["s3", "file"])
def filesystem_config(request: pytest.FixtureRequest) -> dict[str, Any]:
    config: dict[str, Any] = request.getfixturevalue(request.param)
    return config

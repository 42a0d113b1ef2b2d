"""universal_pathlib's tests for paths of a file system, as its source distribution has them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import upath
from fsspec.implementations.memory import MemoryFileSystem
from sources import source

# The wheel is what runs; only its tests come from the source.
upath.__path__.append(str(source(f"universal_pathlib-{version('universal_pathlib')}") / "upath"))
pytest.register_assert_rewrite("upath.tests.cases")

from upath.tests.cases import BaseTests  # noqa: E402

#: What the tests find where they start.
FILES = {
    "file1.txt": "hello world",
    "file2.txt": "hello world",
    "folder1/file1.txt": "file1.txt",
    "folder1/file2.txt": "file2.txt",
}


class TestPath(BaseTests):  # type: ignore[misc]
    SUPPORTS_EMPTY_DIRS = False

    @pytest.fixture
    def local_testdir(self, tmp_path: Path) -> str:
        (tmp_path / "folder1").mkdir()
        for name, text in FILES.items():
            (tmp_path / name).write_text(text)
        return str(tmp_path)

    @pytest.fixture
    def pathlib_base(self, local_testdir: str) -> Path:
        return Path(local_testdir)

    @pytest.fixture
    def clear_fsspec_memory_cache(self) -> Iterator[None]:
        yield
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]

    @pytest.fixture(autouse=True)
    def path(self, chained: Any, place: str) -> None:
        for name, text in FILES.items():
            chained.pipe_file(f"{place}/{name}", text.encode())
        self.path = upath.UPath(f"foreread://{place}", **chained.storage_options)

    def test_is_correct_class(self) -> None:
        assert isinstance(self.path, upath.UPath)

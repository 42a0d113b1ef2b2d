"""The tests of source distributions whose wheels have none."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

#: What is downloaded, with its hashes.
WANTED = Path(__file__).with_name("sources.txt")


def folder() -> Path:
    """Where they are kept, out of version control."""
    target = os.environ.get("CARGO_TARGET_DIR") or WANTED.parents[2] / "target"
    return Path(target) / "suites"


def source(distribution: str) -> Path:
    """The unpacked source of one of them, such as `universal_pathlib-0.3.10`."""
    kept = folder() / distribution
    archive = folder() / f"{distribution}.tar.gz"
    # Not at hand, or the pin has moved.
    if not archive.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        where = ["--no-deps", "--require-hashes", "--requirement", WANTED, "--dest", folder()]
        subprocess.run([*pip, *where], check=True)
    if not kept.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(folder(), filter="data")
    return kept

"""The Python that documents show is run as it is written, one document from top to bottom.

The store is a testbed with a directory `data`, which the environment names: a user's is what their
environment names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, Testbed

DOCUMENTS = ["docs/python.md", "python/README.md"]


def blocks(text: str) -> list[str]:
    """The text of each fenced block of Python."""
    found: list[str] = []
    kept: list[str] | None = None
    for line in text.splitlines():
        if kept is None and line.strip() == "```python":
            kept = []
        elif kept is not None and line.strip() == "```":
            found.append("\n".join(kept))
            kept = None
        elif kept is not None:
            kept.append(line)
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_of_documents_runs(document: str, tmp_path: Path) -> None:
    script = "\n\n".join(blocks((ROOT / document).read_text()))
    # A testbed has one bucket.
    script = script.replace("bucket/", "testbed/")
    assert script, f"{document} shows Python"
    pytest.importorskip("pandas")
    made = """
import numpy, pandas, pathlib, zarr
at = pathlib.Path("data/table")
at.mkdir(parents=True)
frame = pandas.DataFrame({"key": range(10_000), "value": numpy.random.default_rng(1).random(10_000)})
frame.to_parquet(at / "part.parquet")
pathlib.Path("data/key").write_bytes(bytes(2 << 20))
for name in range(100):
    pathlib.Path(f"data/image-{name:02}").write_bytes(bytes([name]) * 10_000)
zarr.save_array("data/array.zarr", numpy.arange(1000))
"""
    subprocess.run([sys.executable, "-c", made], cwd=tmp_path, check=True)
    testbed = Testbed({}, tmp_path / "data")
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "testbed",
        "AWS_SECRET_ACCESS_KEY": "testbedsecret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": testbed.endpoint,
        "TMPDIR": str(tmp_path),
    }
    try:
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
    finally:
        testbed.stop()
    assert run.returncode == 0, f"{script}\n{run.stdout}\n{run.stderr}"

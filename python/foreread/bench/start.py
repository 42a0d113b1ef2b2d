"""Rows of what the package costs before it reads: its import, and its size in a wheel."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import foreread
from foreread.bench.row import Figures, Place, Row, figures

#: Starts of Python of each kind, in turn.
STARTS = 21

#: What an import of the package leaves out.
LEFT_OUT = ("asyncio", "fsspec", "numpy")


def _start(program: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.monotonic() - began


def imported(client: str, place: Place) -> Figures:
    """The median of what an import adds to a start of Python."""
    program = "import sys, json, foreread; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    modules = json.loads(shown.stdout)
    found = [name for name in LEFT_OUT if name in modules]
    if found:
        raise RuntimeError(f"the import brings {', '.join(found)}")
    pairs = [(_start("pass"), _start("import foreread")) for _ in range(STARTS)]
    return figures(statistics.median(after - before for before, after in pairs), len(modules), 0)


def wheel(client: str, place: Place) -> Figures:
    """The installed files, packed as a wheel packs them."""
    top = Path(foreread.__file__).parent
    began = time.monotonic()
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(top.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(top.parent))
        packed.seek(0, 2)
        size = packed.tell()
    return figures(time.monotonic() - began, 1, size)


ROWS: dict[str, Row] = {
    "import": Row(
        "what `import foreread` adds to a start of Python", "ms", ("foreread",), imported
    ),
    "wheel": Row("the package, packed", "MB", ("foreread",), wheel),
}

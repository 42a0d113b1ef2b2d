"""The testbed of a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Objects that the testbed is told of at a time.
ADDED = 5000


def objects(keys: Sequence[str], size: int) -> list[list[dict[str, Any]]]:
    """What tells a testbed of synthetic objects, in parts."""
    specs = [{"key": key, "size": size, "generation": 1} for key in keys]
    return [specs[first : first + ADDED] for first in range(0, len(specs), ADDED)]


class Store:
    """A testbed of its own, which has the files of `directory` in its bucket."""

    def __init__(self, directory: Path, device: Sequence[str]) -> None:
        command = [os.environ.get("FOREREAD_BIN", "foreread"), "testbed", "--listen", "127.0.0.1:0"]
        command += ["--dir", str(directory), *device]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if not found:
            raise RuntimeError(f"{command[0]} did not say where it listens")
        self.endpoint = found[0]

    def ask(self, name: str, body: object = None) -> Any:
        """Asks it, or tells it `body`."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.endpoint}/-/{name}", data, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def stop(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait(10)

"""What a row of the measurements is, and the place where it runs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

#: `seconds` that a run took, what it read (`operations`, `bytes`), and its greatest resident size.
Figures = dict[str, float]

#: A client's name, and the module that it needs.
CLIENTS: dict[str, str | None] = {
    "foreread": None,
    "bare": None,
    "s3fs": "s3fs",
    "pyarrow": "pyarrow",
    "obstore": "obstore",
    "memmap": "numpy",
    "memmap-told": "numpy",
    "swap": "numpy",
}


@dataclass(frozen=True)
class Place:
    """Where a row runs."""

    #: The testbed's URL, whose bucket has the files of `directory` beside synthetic ones.
    endpoint: str
    directory: Path
    #: How long reads go on.
    seconds: float = 5.0

    @property
    def options(self) -> dict[str, Any]:
        """Options of foreread that connect to the testbed."""
        return {
            "endpoint": self.endpoint,
            "key": "testbed",
            "secret": "testbedsecret",
            "region": "us-east-1",
        }


class Asks(Protocol):
    """A store that makes synthetic objects."""

    def ask(self, name: str, body: object = None) -> object:
        """Sends a question, or what to do."""


def _nothing(store: Asks, place: Place) -> None:
    pass


@contextlib.contextmanager
def _alone(client: str, place: Place) -> Iterator[list[str]]:
    yield []


@dataclass(frozen=True)
class Row:
    """A row: what is read, with which clients, and how."""

    text: str
    #: How its speed is said: "MB/s" of what was asked for, operations "/s", "s" or "ms" in all,
    #: or "MB".
    unit: str
    clients: tuple[str, ...]
    #: Runs it with a client, in a process that does nothing else.
    run: Callable[[str, Place], Figures]
    #: Makes what is read.
    prepare: Callable[[Asks, Place], None] = _nothing
    #: What that process runs in: a context that says how its command begins.
    around: Callable[[str, Place], contextlib.AbstractContextManager[list[str]]] = _alone
    #: Modules that all its clients need.
    needs: tuple[str, ...] = ()


def figures(seconds: float, operations: float, total: float) -> Figures:
    """What a run did, and the greatest resident size of this process."""
    # Not getrusage: that has the size of the parent at the fork in it.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    rss = int(found[1]) * 1024 if found else 0
    return {"seconds": seconds, "operations": operations, "bytes": total, "rss": rss}

"""Reads of this package beside those of other clients, against one emulated store.

::

    python -m foreread.bench            # all rows, with the clients that there are
    python -m foreread.bench backward strided --clients foreread,s3fs --seconds 10
    python -m foreread.bench --warm     # what is in memory, through another process and without
    python -m foreread.bench --takeover 8     # how long readers wait when the server is killed
    python -m foreread.bench --loader         # epochs of PyTorch's DataLoader with 8 workers

Each row runs with each client in a process of its own, in turn, against the same testbed: 30 ms to
the first byte, 80 MB/s a connection. A row ends with its object or after `--seconds`. It says the
rate, the bytes fetched for each byte asked for, requests, and the greatest resident size of the
process. The `foreread` command must be on the path, or named by FOREREAD_BIN.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

#: Bytes of the large object. Objects are synthetic: their size costs nothing.
SIZE = 2 << 30

#: Files of the row `files`, and bytes of each.
FILES, FILE_BYTES = 2000, 100 << 10

#: Keys of the rows `ls` and `find`, and directories of the latter.
KEYS, DIRECTORIES = 100_000, 100

#: Objects that the testbed is told of at a time.
ADDED = 5000

MIB = 1 << 20

#: (offset, length) of a thread's reads, in order.
Reads = Iterator[tuple[int, int]]


def _forward() -> Reads:
    return ((at, MIB) for at in range(0, SIZE, MIB))


def _backward() -> Reads:
    return ((at, MIB) for at in range(SIZE - MIB, -1, -MIB))


def _strided() -> Reads:
    return ((at, 64 << 10) for at in range(0, SIZE, MIB))


def _interleaved(streams: int) -> Reads:
    each = SIZE // streams
    return (
        (stream * each + at, 128 << 10)
        for at in range(0, each, 128 << 10)
        for stream in range(streams)
    )


def _random(length: int, seed: int) -> Reads:
    chosen = random.Random(seed)
    while True:
        yield chosen.randrange(SIZE // length) * length, length


#: Each row: what it is, the threads, and the reads of one of them.
ROWS: dict[str, tuple[str, int, Callable[[int], Reads]]] = {
    "forward": ("2 GiB in reads of 1 MiB", 1, lambda _: _forward()),
    "backward": ("2 GiB from its end, in reads of 1 MiB", 1, lambda _: _backward()),
    "strided": ("64 KiB of every MiB", 1, lambda _: _strided()),
    "streams-2": ("two streams in turn in one file, 128 KiB a read", 1, lambda _: _interleaved(2)),
    "streams-16": ("sixteen streams in turn, 128 KiB a read", 1, lambda _: _interleaved(16)),
    "random-4k": ("random 4 KiB, 16 threads", 16, lambda seed: _random(4096, seed)),
    "random-128k": ("random 128 KiB, 16 threads", 16, lambda seed: _random(128 << 10, seed)),
    "files": ("files of 100 KiB in the order of their names", 1, lambda _: iter(())),
    "ls": ("100,000 entries of one directory", 1, lambda _: iter(())),
    "find": ("100,000 files in 100 directories", 1, lambda _: iter(())),
}


def _keys(row: str) -> list[str]:
    """The keys that a row needs besides the large object."""
    if row == "files":
        return [f"files/{nth:05}" for nth in range(FILES)]
    if row == "ls":
        return [f"ls/{nth:06}" for nth in range(KEYS)]
    if row == "find":
        each = KEYS // DIRECTORIES
        return [f"find/d{nth // each:03}/{nth % each:04}" for nth in range(KEYS)]
    return []


class Client:
    """How a library reads. `read_at` is called by `threads` threads."""

    def __init__(self, endpoint: str, threads: int) -> None:
        self.endpoint = endpoint
        self.threads = threads

    def open(self, key: str) -> Any:
        """An object that `read_at` reads."""
        raise NotImplementedError

    def read_at(self, file: Any, offset: int, length: int) -> int:
        """How many bytes were read."""
        raise NotImplementedError

    def whole(self, key: str) -> int:
        """Reads a small file. How many bytes it has."""
        file = self.open(key)
        return self.read_at(file, 0, FILE_BYTES)

    def list(self, directory: str) -> list[str]:
        """The keys in a directory."""
        raise NotImplementedError

    def find(self, directory: str) -> int:
        """How many files are below a directory."""
        raise NotImplementedError


class OfFsspec(Client):
    """A file system of fsspec."""

    fs: Any

    def list(self, directory: str) -> list[str]:
        entries = self.fs.ls(f"testbed/{directory}", detail=True)
        return [entry["name"].removeprefix("testbed/") for entry in entries]

    def find(self, directory: str) -> int:
        return len(self.fs.find(f"testbed/{directory}", detail=True))


class Foreread(OfFsspec):
    """This package."""

    def __init__(self, endpoint: str, threads: int) -> None:
        import fsspec

        super().__init__(endpoint, threads)
        self.options = {
            "endpoint": endpoint,
            "key": "testbed",
            "secret": "testbedsecret",
            "region": "us-east-1",
        }
        self.fs = fsspec.filesystem("foreread", target_protocol="s3", **self.options)

    def open(self, key: str) -> Any:
        return self.fs.open(f"testbed/{key}")

    def read_at(self, file: Any, offset: int, length: int) -> int:
        return len(file.read_at(offset, length))


class S3fs(OfFsspec):
    """s3fs with the cache that it has by default."""

    def __init__(self, endpoint: str, threads: int) -> None:
        import fsspec

        super().__init__(endpoint, threads)
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        self.fs = fsspec.filesystem(
            "s3", key="testbed", secret="testbedsecret", client_kwargs=client
        )

    def open(self, key: str) -> Any:
        return self.fs.open(f"testbed/{key}", "rb")

    def read_at(self, file: Any, offset: int, length: int) -> int:
        # A file has one position, and one cache: several threads ask for ranges.
        if self.threads > 1:
            return len(self.fs.cat_file(file.path, start=offset, end=offset + length))
        file.seek(offset)
        return len(file.read(length))

    def whole(self, key: str) -> int:
        return len(self.fs.cat_file(f"testbed/{key}"))


class Pyarrow(Client):
    """pyarrow's own S3 client."""

    def __init__(self, endpoint: str, threads: int) -> None:
        from pyarrow import fs

        super().__init__(endpoint, threads)
        self.selector = fs.FileSelector
        self.fs = fs.S3FileSystem(
            access_key="testbed",
            secret_key="testbedsecret",
            region="us-east-1",
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
        )

    def open(self, key: str) -> Any:
        return self.fs.open_input_file(f"testbed/{key}")

    def read_at(self, file: Any, offset: int, length: int) -> int:
        return len(file.read_at(length, offset))

    def list(self, directory: str) -> list[str]:
        infos = self.fs.get_file_info(self.selector(f"testbed/{directory}"))
        return sorted(info.path.removeprefix("testbed/") for info in infos)

    def find(self, directory: str) -> int:
        below = self.fs.get_file_info(self.selector(f"testbed/{directory}", recursive=True))
        return sum(info.is_file for info in below)


class Obstore(Client):
    """obstore: one request for each range."""

    def __init__(self, endpoint: str, threads: int) -> None:
        from obstore.store import S3Store

        super().__init__(endpoint, threads)
        self.store = S3Store(
            "testbed",
            endpoint=endpoint,
            access_key_id="testbed",
            secret_access_key="testbedsecret",
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def open(self, key: str) -> Any:
        return key

    def read_at(self, file: Any, offset: int, length: int) -> int:
        return len(self.store.get_range(file, start=offset, length=length))

    def whole(self, key: str) -> int:
        return len(self.store.get(key).bytes())

    def list(self, directory: str) -> list[str]:
        return sorted(entry["path"] for page in self.store.list(f"{directory}/") for entry in page)

    def find(self, directory: str) -> int:
        # It has no directories: all below them is listed.
        return len(self.list(directory))


CLIENTS: dict[str, type[Client]] = {
    "foreread": Foreread,
    "s3fs": S3fs,
    "pyarrow": Pyarrow,
    "obstore": Obstore,
}


def run(row: str, name: str, endpoint: str, seconds: float) -> dict[str, float]:
    """Runs one row in this process: bytes and operations, and the seconds that they took."""
    _, threads, reads = ROWS[row]
    client = CLIENTS[name](endpoint, threads)
    if row in ("ls", "find"):
        start = time.monotonic()
        entries = len(client.list("ls")) if row == "ls" else client.find("find")
        if entries != KEYS:
            raise RuntimeError(f"{entries} entries were listed")
        return _figures(time.monotonic() - start, entries, 0)
    done: list[tuple[int, int] | BaseException] = [(0, 0)] * threads
    work: list[Iterator[Callable[[], int]]]
    if row == "files":
        work = [iter([partial(client.whole, key) for key in client.list("files")])]
    else:
        file = client.open("big")
        work = [
            (partial(client.read_at, file, at, length) for at, length in reads(seed))
            for seed in range(threads)
        ]
    start = time.monotonic()

    def read(thread: int) -> None:
        count = total = 0
        try:
            for job in work[thread]:
                total += job()
                count += 1
                if time.monotonic() - start > seconds:
                    break
            done[thread] = (count, total)
        except BaseException as error:
            done[thread] = error

    workers = [threading.Thread(target=read, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    figures: list[tuple[int, int]] = []
    for thread in done:
        if isinstance(thread, BaseException):
            raise thread
        figures.append(thread)
    seconds = time.monotonic() - start
    return _figures(seconds, sum(count for count, _ in figures), sum(total for _, total in figures))


def _figures(seconds: float, operations: int, total: int) -> dict[str, float]:
    """What a row has done, and the greatest resident size of this process."""
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "operations": operations, "bytes": total, "rss": rss}


class Store:
    """The testbed of a run."""

    def __init__(self, first_byte: str, rate: str) -> None:
        command = [os.environ.get("FOREREAD_BIN", "foreread"), "testbed", "--listen", "127.0.0.1:0"]
        command += [
            "--first-byte",
            first_byte,
            "--connection-rate",
            rate,
            "--object",
            f"big={SIZE}",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if not found:
            raise RuntimeError(f"{command[0]} did not say where it listens")
        self.endpoint = found[0]

    def options(self) -> dict[str, str]:
        """Options that connect to it."""
        return {
            "endpoint": self.endpoint,
            "key": "testbed",
            "secret": "testbedsecret",
            "region": "us-east-1",
        }

    def ask(self, name: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.endpoint}/-/{name}", data, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def add(self, keys: list[str]) -> None:
        """Makes files of `FILE_BYTES`."""
        specs = [{"key": key, "size": FILE_BYTES, "generation": 1} for key in keys]
        for first in range(0, len(specs), ADDED):
            self.ask("objects", specs[first : first + ADDED])


def measure(store: Store, row: str, client: str, seconds: float) -> dict[str, float] | None:
    """One row with one client; nothing where that failed."""
    store.ask("counters/reset", {})
    command = [sys.executable, "-m", "foreread.bench", "--one", row, client, store.endpoint]
    ran = subprocess.run([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return None
    figures: dict[str, float] = json.loads(ran.stdout)
    counters = store.ask("counters")
    asked = figures["bytes"]
    figures["amp"] = counters["object_bytes_sent"] / asked if asked else 0.0
    figures["requests"] = counters["get"] + counters["head"] + counters["list"]
    return figures


def shown(row: str, figures: dict[str, float]) -> str:
    """A row's rate in its unit, and what it cost."""
    seconds = max(figures["seconds"], 1e-9)
    rate = f"{figures['bytes'] / seconds / 1e6:8.1f} MB/s"
    if row.startswith(("random", "strided", "files", "ls", "find")):
        rate = f"{figures['operations'] / seconds:8.0f} /s  "
    cost = f"amp {figures['amp']:6.2f}  {figures['requests']:7.0f} requests"
    return f"{rate}  {cost}  {figures['rss'] / MIB:5.0f} MiB"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m foreread.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--clients", help="separated by commas; without, those that are installed")
    parser.add_argument("--seconds", type=float, default=5.0, help="the longest time of a row")
    parser.add_argument("--first-byte", default="30ms")
    parser.add_argument("--connection-rate", default="80MB/s")
    parser.add_argument("--warm", action="store_true", help="reads through another process")
    parser.add_argument(
        "--takeover", type=int, metavar="CLIENTS", help="kills a process that serves, 20 times"
    )
    parser.add_argument("--loader", action="store_true", help="epochs of PyTorch's DataLoader")
    parser.add_argument("--json", action="store_true", help="figures as JSON, a line each")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        row, client, endpoint = arguments.one
        print(json.dumps(run(row, client, endpoint, arguments.seconds)))
        return
    rows = arguments.rows or list(ROWS)
    missing = [name for name in CLIENTS if importlib.util.find_spec(name) is None]
    clients = [name for name in CLIENTS if name not in missing]
    if arguments.clients:
        clients = arguments.clients.split(",")
    for given, known in ((rows, ROWS), (clients, CLIENTS)):
        for name in given:
            if name not in known:
                parser.error(f"{name!r} is unknown; known are {', '.join(known)}")
    for name in missing:
        if name in clients:
            parser.error(f"{name} is not installed; install it with `pip install {name}`")
        if not (arguments.warm or arguments.takeover or arguments.loader):
            print(f"without {name}, which is not installed", file=sys.stderr)
    store = Store(arguments.first_byte, arguments.connection_rate)
    try:
        if arguments.warm:
            from foreread._warm import SIZE as size
            from foreread._warm import warm

            store.ask("objects", {"key": "warm", "size": size, "generation": 1})
            warm("s3://testbed/warm", store.options())
            return
        if arguments.takeover:
            from foreread._takeover import SIZE as size
            from foreread._takeover import takeover

            store.ask("objects", {"key": "takeover", "size": size, "generation": 1})
            takeover("s3://testbed/takeover", store.options(), arguments.takeover, 20)
            return
        if arguments.loader:
            from foreread import _loader

            store.add([_loader.key(nth) for nth in range(_loader.FILES)])
            _loader.loader(store.options(), store.ask)
            return
        for row in rows:
            store.add(_keys(row))
            for client in clients:
                figures = measure(store, row, client, arguments.seconds)
                if arguments.json:
                    print(
                        json.dumps({"row": row, "client": client, "figures": figures}), flush=True
                    )
                else:
                    text = "failed" if figures is None else shown(row, figures)
                    print(f"{row:12} {client:10} {text}", flush=True)
    finally:
        store.process.terminate()
        store.process.wait(10)


if __name__ == "__main__":
    main()

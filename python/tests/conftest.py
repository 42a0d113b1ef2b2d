"""A testbed for each module: an object store whose bytes can be checked and whose requests are
counted.

`FOREREAD_BIN` names the command; without it `target/release/foreread` is used.
"""

from __future__ import annotations

import atexit
import http.client
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Processes of this run meet each other alone. Children that are spawned have it already.
if "FOREREAD_TESTS" not in os.environ:
    os.environ["FOREREAD_TESTS"] = os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ["FOREREAD_TESTS"], True)

#: Objects of every testbed: synthetic, so that they cost nothing.
OBJECTS = {"big": "64MiB", "small": "100000", "empty": "0", "tree/a": "10", "tree/b/c": "20"}


class Testbed:
    """A running testbed."""

    __test__ = False

    def __init__(
        self, objects: dict[str, str], directory: Path | None = None, first_byte: str = "5ms"
    ) -> None:
        binary = os.environ.get("FOREREAD_BIN", str(ROOT / "target/release/foreread"))
        if not Path(binary).exists():
            pytest.exit(f"{binary} is missing: build it, or set FOREREAD_BIN", 2)
        # So that requests that are made together are in flight together.
        command = [binary, "testbed", "--listen", "127.0.0.1:0", "--first-byte", first_byte]
        for name, size in objects.items():
            command += ["--object", f"{name}={size}"]
        if directory is not None:
            command += ["--dir", str(directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found, "the testbed says where it listens"
        self.endpoint = found[0]
        #: Options that connect to it.
        self.options: dict[str, Any] = {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "key": "testbed",
            "secret": "testbedsecret",
        }

    def url(self, key: str) -> str:
        return f"s3://testbed/{key}"

    def _ask(self, name: str, body: object = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.endpoint}/-/{name}", data, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else None

    def bytes_of(self, key: str) -> bytes:
        """The object's bytes, by a plain download."""
        with urllib.request.urlopen(f"{self.endpoint}/http/{key}", timeout=60) as response:
            data: bytes = response.read()
        return data

    def reset(self) -> None:
        """Starts the counters from zero."""
        self._ask("counters/reset", {}, "POST")

    def counters(self) -> dict[str, int]:
        """Requests since the last reset, by kind, and bytes."""
        counted: dict[str, int] = self._ask("counters")
        return counted

    def requests(self) -> list[dict[str, Any]]:
        """The last requests, oldest first."""
        log: list[dict[str, Any]] = self._ask("requests")
        return log

    def set_object(self, key: str, size: int, generation: int = 1) -> None:
        """Adds or replaces an object."""
        self._ask("objects", {"key": key, "size": size, "generation": generation})

    def set_objects(self, keys: Sequence[str], size: int) -> None:
        """Adds or replaces objects of one size."""
        self._ask("objects", [{"key": key, "size": size, "generation": 1} for key in keys])

    def faults(self, *specs: str) -> None:
        """Replaces the faults in force."""
        self._ask("faults", list(specs))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


class Gate:
    """A server in front of a testbed that answers no read before so many are in flight."""

    def __init__(self, testbed: Testbed, reads: int) -> None:
        behind = testbed.endpoint.removeprefix("http://")
        changed = threading.Condition()
        waiting = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                nonlocal waiting
                # Listings have a query.
                if self.command == "GET" and "?" not in self.path:
                    with changed:
                        waiting += 1
                        changed.notify_all()
                        if not changed.wait_for(lambda: waiting >= reads, timeout=60):
                            return self.send_error(503, "too few reads came")
                connection = http.client.HTTPConnection(behind, timeout=60)
                # The signature is of the headers as they are.
                connection.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    connection.putheader(name, value)
                connection.endheaders()
                answer = connection.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                if answer.getheader("content-length") is None:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                connection.close()

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        #: Options that connect to it.
        self.options = testbed.options | {"endpoint": self.endpoint}

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[Testbed]:
    testbed = Testbed(OBJECTS)
    yield testbed
    testbed.stop()


@pytest.fixture
def testbed(server: Testbed) -> Iterator[Testbed]:
    """The module's testbed, with counters at zero and no faults."""
    server.faults()
    server.reset()
    yield server
    server.faults()


@pytest.fixture(scope="module")
def big(server: Testbed) -> bytes:
    """The bytes of the object `big`."""
    return server.bytes_of("big")

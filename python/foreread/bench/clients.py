"""How libraries read ranges, small files and listings."""

from __future__ import annotations

import http.client
import threading
from typing import Any
from urllib.parse import urlsplit

from foreread.bench.row import Place


def foreread_fs(place: Place, **more: Any) -> Any:
    """This package's file system."""
    import fsspec

    return fsspec.filesystem("foreread", target_protocol="s3", **place.options, **more)


def s3fs_options(place: Place) -> dict[str, Any]:
    """Options of s3fs that connect to the testbed."""
    client = {"endpoint_url": place.endpoint, "region_name": "us-east-1"}
    return {"key": "testbed", "secret": "testbedsecret", "client_kwargs": client}


def s3fs_fs(place: Place) -> Any:
    """s3fs with the cache that it has by default."""
    import fsspec

    return fsspec.filesystem("s3", **s3fs_options(place))


def pyarrow_fs(place: Place) -> Any:
    """pyarrow's own S3 client."""
    from pyarrow import fs

    return fs.S3FileSystem(
        access_key="testbed",
        secret_key="testbedsecret",
        region="us-east-1",
        endpoint_override=place.endpoint.removeprefix("http://"),
        scheme="http",
    )


def obstore_options(place: Place) -> dict[str, Any]:
    """Options of obstore that connect to the testbed."""
    return {
        "endpoint": place.endpoint,
        "access_key_id": "testbed",
        "secret_access_key": "testbedsecret",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }


def obstore_fs(place: Place, **more: Any) -> Any:
    """obstore as a file system of fsspec."""
    from obstore.fsspec import FsspecStore

    return FsspecStore("s3", **obstore_options(place), **more)


class Client:
    """How a library reads. `read_at` is called by `threads` threads."""

    def __init__(self, place: Place, threads: int) -> None:
        self.place = place
        self.threads = threads

    def open(self, key: str) -> Any:
        """An object that `read_at` reads."""
        raise NotImplementedError

    def read_at(self, file: Any, offset: int, length: int) -> int:
        """How many bytes were read."""
        raise NotImplementedError

    def whole(self, key: str) -> int:
        """Reads a small file. How many bytes it has."""
        raise NotImplementedError

    def list(self, directory: str) -> list[str]:
        """The keys in a directory."""
        raise NotImplementedError

    def find(self, directory: str) -> int:
        """How many files are below a directory."""
        raise NotImplementedError


class OfFsspec(Client):
    """A file system of fsspec."""

    fs: Any

    def open(self, key: str) -> Any:
        return self.fs.open(f"testbed/{key}", "rb")

    def list(self, directory: str) -> list[str]:
        entries = self.fs.ls(f"testbed/{directory}", detail=True)
        return [entry["name"].removeprefix("testbed/") for entry in entries]

    def find(self, directory: str) -> int:
        return len(self.fs.find(f"testbed/{directory}", detail=True))


class Foreread(OfFsspec):
    """This package."""

    def __init__(self, place: Place, threads: int) -> None:
        super().__init__(place, threads)
        self.fs = foreread_fs(place)

    def read_at(self, file: Any, offset: int, length: int) -> int:
        return len(file.read_at(offset, length))

    def whole(self, key: str) -> int:
        file = self.open(key)
        return len(file.read_at(0, file.size))


class S3fs(OfFsspec):
    """s3fs."""

    def __init__(self, place: Place, threads: int) -> None:
        super().__init__(place, threads)
        self.fs = s3fs_fs(place)

    def read_at(self, file: Any, offset: int, length: int) -> int:
        # A file has one position, and one cache: several threads ask for ranges.
        if self.threads > 1:
            return len(self.fs.cat_file(file.path, start=offset, end=offset + length))
        file.seek(offset)
        return len(file.read(length))

    def whole(self, key: str) -> int:
        return len(self.fs.cat_file(f"testbed/{key}"))


class Pyarrow(Client):
    """pyarrow."""

    def __init__(self, place: Place, threads: int) -> None:
        from pyarrow import fs

        super().__init__(place, threads)
        self.selector = fs.FileSelector
        self.fs = pyarrow_fs(place)

    def open(self, key: str) -> Any:
        return self.fs.open_input_file(f"testbed/{key}")

    def read_at(self, file: Any, offset: int, length: int) -> int:
        return len(file.read_at(length, offset))

    def whole(self, key: str) -> int:
        file = self.open(key)
        return len(file.read_at(file.size(), 0))

    def list(self, directory: str) -> list[str]:
        infos = self.fs.get_file_info(self.selector(f"testbed/{directory}"))
        return sorted(info.path.removeprefix("testbed/") for info in infos)

    def find(self, directory: str) -> int:
        below = self.fs.get_file_info(self.selector(f"testbed/{directory}", recursive=True))
        return sum(info.is_file for info in below)


class Obstore(Client):
    """obstore: one request for each range."""

    def __init__(self, place: Place, threads: int) -> None:
        from obstore.store import S3Store

        super().__init__(place, threads)
        self.store = S3Store("testbed", **obstore_options(place))

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


class Bare(Client):
    """A connection for each thread, one request for each range, no signature: what the storage
    gives a program that knows what it wants."""

    def __init__(self, place: Place, threads: int) -> None:
        super().__init__(place, threads)
        self.address = urlsplit(place.endpoint).netloc
        self.kept = threading.local()

    def open(self, key: str) -> Any:
        return f"/http/{key}"

    def read_at(self, file: Any, offset: int, length: int) -> int:
        if not hasattr(self.kept, "connection"):
            self.kept.connection = http.client.HTTPConnection(self.address, timeout=60)
            self.kept.buffer = bytearray(length)
        connection, buffer = self.kept.connection, self.kept.buffer
        connection.request("GET", file, headers={"Range": f"bytes={offset}-{offset + length - 1}"})
        with connection.getresponse() as answer:
            view, done = memoryview(buffer), 0
            while count := answer.readinto(view[done:]):
                done += count
        return done


#: Each client's way.
WAYS: dict[str, type[Client]] = {
    "foreread": Foreread,
    "s3fs": S3fs,
    "pyarrow": Pyarrow,
    "obstore": Obstore,
    "bare": Bare,
}

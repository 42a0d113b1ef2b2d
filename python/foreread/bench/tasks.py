"""Rows of reads by tasks of asyncio: random ranges of one large object.

The bare client is the event loop's own streams: a connection for each task, a request for each
range, no signature.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from foreread.bench import reads
from foreread.bench.clients import obstore_options, s3fs_options
from foreread.bench.row import Figures, Place, Row, figures

#: Tasks that read at the same time.
TASKS = 64

#: How a task reads (offset, length): how many bytes came.
Read = Callable[[int, int], Awaitable[int]]

#: Makes that for each task.
Ready = Callable[[], Awaitable[Read]]


@contextlib.asynccontextmanager
async def _foreread(place: Place) -> AsyncIterator[Ready]:
    import foreread

    async with foreread.open_async("s3://testbed/big", **place.options) as file:

        async def read(offset: int, length: int) -> int:
            return len(await file.read_at(offset, length))

        async def ready() -> Read:
            return read

        yield ready


@contextlib.asynccontextmanager
async def _s3fs(place: Place) -> AsyncIterator[Ready]:
    import s3fs

    fs = s3fs.S3FileSystem(asynchronous=True, skip_instance_cache=True, **s3fs_options(place))
    session = await fs.set_session()

    async def read(offset: int, length: int) -> int:
        return len(await fs._cat_file("testbed/big", start=offset, end=offset + length))

    async def ready() -> Read:
        return read

    try:
        yield ready
    finally:
        await session.close()


@contextlib.asynccontextmanager
async def _obstore(place: Place) -> AsyncIterator[Ready]:
    from obstore.store import S3Store

    store: Any = S3Store("testbed", **obstore_options(place))

    async def read(offset: int, length: int) -> int:
        return len(await store.get_range_async("big", start=offset, length=length))

    async def ready() -> Read:
        return read

    yield ready


@contextlib.asynccontextmanager
async def _bare(place: Place) -> AsyncIterator[Ready]:
    at = urlsplit(place.endpoint)
    opened: list[asyncio.StreamWriter] = []

    async def ready() -> Read:
        came, went = await asyncio.open_connection(at.hostname, at.port, limit=1 << 20)
        opened.append(went)

        async def read(offset: int, length: int) -> int:
            extent = f"bytes={offset}-{offset + length - 1}"
            head = f"GET /http/big HTTP/1.1\r\nHost: {at.netloc}\r\nRange: {extent}\r\n\r\n"
            went.write(head.encode())
            answer = await came.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 206"):
                raise RuntimeError(answer.decode())
            return len(await came.readexactly(length))

        return read

    yield ready
    for went in opened:
        went.close()


WAYS = {"foreread": _foreread, "bare": _bare, "s3fs": _s3fs, "obstore": _obstore}


async def _read(name: str, place: Place, length: int) -> Figures:
    async with WAYS[name](place) as ready:
        # Connections are made before the time begins.
        ways = [await ready() for _ in range(TASKS)]
        start = time.monotonic()

        async def task(seed: int) -> int:
            chosen, count = random.Random(seed), 0
            while time.monotonic() - start < place.seconds:
                at = chosen.randrange(reads.SIZE // length) * length
                if await ways[seed](at, length) != length:
                    raise RuntimeError("a read came short")
                count += 1
            return count

        count = sum(await asyncio.gather(*map(task, range(TASKS))))
        return figures(time.monotonic() - start, count, count * length)


def _run(name: str, place: Place, length: int) -> Figures:
    return asyncio.run(_read(name, place, length))


def _row(length: int, text: str) -> Row:
    return Row(text, "/s", tuple(WAYS), partial(_run, length=length), reads.big)


ROWS: dict[str, Row] = {
    "tasks-4k": _row(4096, "random 4 KiB, 64 tasks of asyncio"),
    "tasks-128k": _row(128 << 10, "random 128 KiB, 64 tasks of asyncio"),
}

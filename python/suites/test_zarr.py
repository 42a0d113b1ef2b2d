"""zarr's tests for stores, as its wheel has them, beside a client that writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from zarr.core.buffer import Buffer, cpu
from zarr.testing.store import StoreTests

import foreread


class Written(foreread.Store):
    """As `foreread.Store`, but what is set is written by s3fs, unless it is for reading."""

    def __init__(self, url: str, *, fs: Any, read_only: bool = False, **options: Any) -> None:
        super().__init__(url, **options)
        self._read_only = read_only
        self.fs = fs

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.url, self.fs, self._read_only, self._options))

    async def set(self, key: str, value: Buffer) -> None:
        if self.read_only:
            return await super().set(key, value)
        await asyncio.to_thread(self.fs.pipe_file, f"{self.url}/{key}", value.to_bytes())


def _again(url: str, fs: Any, read_only: bool, options: dict[str, Any]) -> Written:
    return Written(url, fs=fs, read_only=read_only, **options)


class TestStore(StoreTests[Written, cpu.Buffer]):
    store_cls = Written
    buffer_cls = cpu.Buffer

    async def set(self, store: Written, key: str, value: Buffer) -> None:
        await asyncio.to_thread(store.fs.pipe_file, f"{store.url}/{key}", value.to_bytes())

    async def get(self, store: Written, key: str) -> Buffer:
        data = await asyncio.to_thread(store.fs.cat_file, f"{store.url}/{key}")
        return self.buffer_cls.from_bytes(data)

    @pytest.fixture
    def store_kwargs(self, chained: Any, place: str) -> dict[str, Any]:
        options = dict(chained.storage_options)
        options.pop("target_protocol")
        return {"url": f"s3://{place}", "fs": chained, **options}

    def test_store_repr(self, store: Written) -> None:
        assert repr(store) == f"foreread.Store({store.url!r})"

    def test_store_supports_writes(self, store: Written) -> None:
        assert not store.supports_writes

    def test_store_supports_listing(self, store: Written) -> None:
        assert store.supports_listing

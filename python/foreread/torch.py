"""Datasets for `torch.utils.data.DataLoader`: one sample a file.

::

    samples = foreread.torch.Dataset(urls, transform=decode)
    DataLoader(samples, batch_size=64, shuffle=True, num_workers=8)

Workers may be started by fork, forkserver or spawn. They read through the engine of the process
that makes the dataset, so what one epoch has read stays for the next, though workers end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from foreread import _native
from foreread._native import VersionChanged
from foreread._options import parse
from foreread._ranges import checked, put

__all__ = ["Dataset"]

try:
    from torch.utils.data import Dataset as _Dataset
except ImportError:
    # A loader takes anything that has a length and items.
    _Dataset = object


class Dataset(_Dataset):  # type: ignore[misc]
    """The contents of files, by their place in `urls`.

    An item is the `bytes` of a file, or what `transform` makes of them. The files of a batch are
    in flight together. Options are those of `foreread.open`; `memory` is the budget of all workers
    together, unless `share=False` gives each an engine of its own.

    A file is read at the version that it has when it is read: where that is another one than names
    said, its name is asked for once more. Errors are those of `foreread.File`.
    """

    def __init__(
        self,
        urls: Iterable[str | os.PathLike[str]],
        *,
        transform: Callable[[bytes], Any] | None = None,
        **options: Any,
    ) -> None:
        self.urls = [os.fspath(url) for url in urls]
        self.transform = transform
        # What is sent to a worker says its budget as well.
        self._given = options
        self._options = parse(options)
        self._stores: dict[str, _native.Store] = {}
        if self.urls:
            # Before there are workers: of these, each would take its engine along when it ends.
            with contextlib.suppress(OSError, ValueError):
                self._store(_native.place(self.urls[0])[0]).connect()

    def __len__(self) -> int:
        return len(self.urls)

    def __getitem__(self, index: int) -> Any:
        (item,) = self.__getitems__([index])
        return item

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items: their files are asked for together."""
        places = [_native.place(self.urls[index]) for index in indices]
        read = self._read(places)
        # All items of a file are of one version.
        both = zip(places, read, strict=True)
        replaced = {place for place, data in both if isinstance(data, VersionChanged)}
        if replaced:
            changed = [at for at, place in enumerate(places) if place in replaced]
            put(read, changed, self._read([places[at] for at in changed], fresh=True))
        found = checked(read, "raise")
        return found if self.transform is None else [self.transform(data) for data in found]

    def _read(self, places: Sequence[tuple[str, str]], fresh: bool = False) -> list[Any]:
        """The bytes of files, or errors of reading."""
        handles: dict[tuple[str, str], _native.Handle] = {}
        for name in {name for name, _ in places}:
            paths = [path for other, path in places if other == name]
            opened = self._store(name).open_together(paths, fresh=fresh)
            handles.update(
                ((name, path), handle) for path, handle in zip(paths, opened, strict=True)
            )
        ranges = [(handles[place], 0, handles[place].size) for place in places]
        return list(_native.read_together(ranges, True))

    def _store(self, name: str) -> _native.Store:
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = _native.Store(name, **self._options)
        return store

    def __getstate__(self) -> dict[str, Any]:
        return {"urls": self.urls, "transform": self.transform, "given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["urls"], transform=state["transform"], **state["given"])  # type: ignore[misc]

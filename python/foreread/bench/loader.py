"""Epochs of a `DataLoader` of PyTorch over `foreread.torch.Dataset`, by each start method.

An epoch ends with its last batch and has its workers started, which import PyTorch under spawn and
forkserver; the seconds until the first batch are said beside it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import foreread.torch

#: The data set, which fits into the budget.
FILES, FILE_BYTES, BUDGET = 20_000, 100 << 10, "3GiB"

WORKERS, BATCH, EPOCHS = 8, 64, 2

METHODS = ("fork", "forkserver", "spawn")


def _transform(data: bytes) -> int:
    return len(data)


def key(nth: int) -> str:
    """The key of a file."""
    return f"train/{nth:05}"


def loader(options: dict[str, Any], ask: Callable[..., Any]) -> None:
    """Prints the epochs. `ask` asks the store."""
    from torch.utils.data import DataLoader

    # Of more workers than processors, which is how one waits for storage.
    warnings.filterwarnings("ignore", message=".*worker processes", category=UserWarning)
    urls = [f"s3://testbed/{key(nth)}" for nth in range(FILES)]
    for method in METHODS:
        # A budget that was set for one method holds for the next; what it has read does not.
        foreread.configure(memory="16MiB")
        samples = foreread.torch.Dataset(urls, transform=_transform, memory=BUDGET, **options)
        batches = DataLoader(
            samples,
            batch_size=BATCH,
            shuffle=True,
            num_workers=WORKERS,
            multiprocessing_context=method,
            collate_fn=sum,
        )
        for epoch in range(1, EPOCHS + 1):
            ask("counters/reset", {})
            total, first, began = 0, 0.0, time.monotonic()
            for batch in batches:
                first = first or time.monotonic() - began
                total += batch
            seconds = time.monotonic() - began
            if total != FILES * FILE_BYTES:
                raise RuntimeError(f"{total} bytes came")
            counters = ask("counters")
            print(
                f"{method:10} epoch {epoch}: {FILES / seconds:6.0f} files/s, first batch after "
                f"{first:5.1f} s, {counters['get']:6} GET {counters['head']:6} HEAD "
                f"{counters['list']:4} LIST",
                flush=True,
            )

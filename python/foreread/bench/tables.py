"""Rows of queries of Parquet files: an aggregate, a wide column, and a row by its key.

Each program runs them over this package's file system, over s3fs, and over pyarrow's own S3
client, which knows the format. Four files of 106 MB in 15 row groups of ten columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from foreread.bench.clients import foreread_fs, pyarrow_fs, s3fs_fs
from foreread.bench.row import Asks, Figures, Place, Row, figures

#: The table: files, rows of each, and rows of a row group.
FILES, ROWS_OF_FILE, ROWS_OF_GROUP = 4, 1_200_000, 80_000

#: Columns of the aggregate, and the wide one.
AGGREGATE, WIDE = ("group", "v0", "v1"), "text"

#: Bytes of a value of the wide column.
WIDTH = 43

FOLDER = "parquet"


def _key() -> int:
    """A key in the middle of a row group of a file in the middle."""
    return (FILES // 2) * ROWS_OF_FILE + ROWS_OF_FILE // 2 + ROWS_OF_GROUP // 3


def make(store: Asks, place: Place) -> None:
    """Writes the files, if they are not there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = place.directory / FOLDER
    folder.mkdir(exist_ok=True)
    for part in range(FILES):
        path = folder / f"{part}.parquet"
        if path.exists():
            continue
        random = np.random.default_rng(part)
        count = ROWS_OF_FILE
        letters = random.integers(97, 123, count * WIDTH, dtype=np.uint8).tobytes()
        offsets = np.arange(count + 1, dtype=np.int32) * WIDTH
        text = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
        columns: dict[str, Any] = {
            "key": np.arange(part * count, (part + 1) * count),
            "group": random.integers(0, 10, count, dtype=np.int8),
            **{f"v{nth}": random.random(count) for nth in range(3)},
            **{f"w{nth}": random.random(count, dtype=np.float32) for nth in range(4)},
            WIDE: text,
        }
        made = path.with_suffix(".part")
        pq.write_table(pa.table(columns), made, row_group_size=ROWS_OF_GROUP, use_dictionary=False)
        made.rename(path)


def _chosen(query: str) -> Callable[[Any, int], bool]:
    """Whether a query needs a column of a row group."""

    def chosen(group: Any, column: int) -> bool:
        about = group.column(column)
        if query == "key":
            keys = group.column(0).statistics
            return bool(keys.min <= _key() <= keys.max)
        name = about.path_in_schema
        return name == WIDE if query == "column" else name in AGGREGATE

    return chosen


def needed(directory: Path, query: str) -> int:
    """Bytes that a query cannot do without: footers, and the chunks of columns that it names, of
    row groups that may have the key."""
    import pyarrow.parquet as pq

    total, chosen = 0, _chosen(query)
    for path in (directory / FOLDER).glob("*.parquet"):
        about = pq.read_metadata(path)
        # Behind the footer are its length and a mark.
        total += about.serialized_size + 8
        for group in map(about.row_group, range(about.num_row_groups)):
            total += sum(
                group.column(nth).total_compressed_size
                for nth in range(group.num_columns)
                if chosen(group, nth)
            )
    return total


def _fs(client: str, place: Place) -> Any:
    return {"foreread": foreread_fs, "s3fs": s3fs_fs, "pyarrow": pyarrow_fs}[client](place)


def _pyarrow(client: str, place: Place, query: str) -> int:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(f"testbed/{FOLDER}", filesystem=_fs(client, place), format="parquet")
    if query == "aggregate":
        found = table.to_table(columns=list(AGGREGATE)).group_by("group")
        return len(found.aggregate([("v0", "sum"), ("v1", "mean")]))
    if query == "column":
        lengths = pc.utf8_length(table.to_table(columns=[WIDE])[WIDE])
        return int(pc.sum(lengths).as_py()) // WIDTH
    return len(table.to_table(filter=ds.field("key") == _key()))


def _pandas(client: str, place: Place, query: str) -> int:
    import pandas as pd

    read = partial(pd.read_parquet, f"testbed/{FOLDER}", filesystem=_fs(client, place))
    if query == "aggregate":
        found = read(columns=list(AGGREGATE)).groupby("group")
        return len(found.agg({"v0": "sum", "v1": "mean"}))
    if query == "column":
        return int(read(columns=[WIDE])[WIDE].str.len().sum()) // WIDTH
    return len(read(filters=[("key", "==", _key())]))


def _duckdb(client: str, place: Place, query: str) -> int:
    import duckdb

    connection = duckdb.connect()
    fs = _fs(client, place)
    if client == "pyarrow":
        import pyarrow.dataset as ds

        table = ds.dataset(f"testbed/{FOLDER}", filesystem=fs, format="parquet")
        connection.register("t", table)
        source = "t"
    else:
        connection.register_filesystem(fs)
        scheme = "foreread" if client == "foreread" else "s3"
        source = f"read_parquet('{scheme}://testbed/{FOLDER}/*.parquet')"
    if query == "aggregate":
        asked = f'select "group", sum(v0), avg(v1) from {source} group by 1'
        return len(connection.execute(asked).fetchall())
    if query == "column":
        row = connection.execute(f"select sum(length({WIDE})) from {source}").fetchone()
        assert row is not None
        return int(row[0]) // WIDTH
    return len(connection.execute(f"select * from {source} where key = {_key()}").fetchall())


PROGRAMS = {"pyarrow": _pyarrow, "pandas": _pandas, "duckdb": _duckdb}


def _run(client: str, place: Place, program: str, query: str) -> Figures:
    # What a program imports is no part of it.
    __import__("pyarrow.dataset")
    __import__(program)
    start = time.monotonic()
    rows = PROGRAMS[program](client, place, query)
    took = time.monotonic() - start
    expected = {"aggregate": 10, "column": FILES * ROWS_OF_FILE, "key": 1}[query]
    if rows != expected:
        raise RuntimeError(f"{rows} rows in place of {expected}")
    return figures(took, 1, needed(place.directory, query))


TEXTS = {
    "aggregate": "3 of 10 columns of 4 Parquet files of 106 MB, by groups",
    "column": "a wide column of these",
    "key": "a row of these by its key",
}

ROWS: dict[str, Row] = {
    f"{program}-{query}": Row(
        f"{text}, by {program}",
        "s",
        ("foreread", "pyarrow", "s3fs"),
        partial(_run, program=program, query=query),
        make,
        needs=("fsspec", "pyarrow", "numpy", program),
    )
    for program in PROGRAMS
    for query, text in TEXTS.items()
}

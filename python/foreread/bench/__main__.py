"""The command: `python -m foreread.bench`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from foreread import bench
from foreread.bench import arrays, formats, reads, start, tables, tasks
from foreread.bench.row import CLIENTS, Figures, Place, Row
from foreread.bench.store import Store, objects

SUBJECTS = {
    "reads": reads.ROWS,
    "tasks": tasks.ROWS,
    "tables": tables.ROWS,
    "formats": formats.ROWS,
    "arrays": arrays.ROWS,
    "start": start.ROWS,
}

ROWS: dict[str, Row] = {name: row for rows in SUBJECTS.values() for name, row in rows.items()}

MIB = 1 << 20


def measure(store: Store, place: Place, name: str, client: str) -> Figures | None:
    """One row with one client; nothing where that failed."""
    row = ROWS[name]
    store.ask("counters/reset", {})
    with row.around(client, place) as inside:
        command = [*inside, sys.executable, "-m", "foreread.bench", "--one", name, client]
        command += [place.endpoint, "--dir", str(place.directory), "--seconds", str(place.seconds)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return None
    figures: Figures = json.loads(ran.stdout.splitlines()[-1])
    counters = store.ask("counters")
    asked = figures["bytes"]
    figures["amp"] = counters["object_bytes_sent"] / asked if asked else 0.0
    figures["requests"] = counters["get"] + counters["head"] + counters["list"]
    return figures


def speed(row: Row, figures: Figures) -> float:
    """More is better."""
    seconds = max(figures["seconds"], 1e-9)
    if row.unit == "MB/s":
        return figures["bytes"] / seconds
    return figures["operations"] / seconds if row.unit == "/s" else 1 / seconds


def shown(row: Row, figures: Figures, ours: Figures | None) -> str:
    """A row's rate in its unit, what it cost, and how many times as fast foreread was."""
    seconds = max(figures["seconds"], 1e-9)
    if row.unit == "MB":
        return f"{figures['bytes'] / 1e6:8.2f} MB"
    rate = {
        "MB/s": f"{figures['bytes'] / seconds / 1e6:8.1f} MB/s",
        "/s": f"{figures['operations'] / seconds:8.0f} /s  ",
        "s": f"{seconds:8.2f} s   ",
        "ms": f"{seconds * 1e3:8.1f} ms  ",
    }[row.unit]
    if row.unit == "ms":
        return rate
    cost = f"amp {figures['amp']:6.2f}  {figures['requests']:7.0f} requests  "
    text = f"{rate}  {cost if figures['requests'] else ''}{figures['rss'] / MIB:5.0f} MiB"
    if ours is not None and ours is not figures:
        text += f"  foreread {speed(row, ours) / speed(row, figures):.2f} times"
    return text


def fastest(row: Row, runs: list[Figures | None]) -> Figures | None:
    """The fastest of several runs; nothing where all failed."""
    return max((run for run in runs if run), key=lambda run: speed(row, run), default=None)


def _arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="python -m foreread.bench",
        description=bench.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rows = f"of {', '.join(ROWS)}; or all of {', '.join(SUBJECTS)}"
    parser.add_argument("rows", nargs="*", metavar="ROW", help=rows)
    parser.add_argument("--clients", help="separated by commas; without, those that are installed")
    parser.add_argument("--seconds", type=float, default=5.0, help="the longest time of reads")
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of each, in turn, of which the fastest counts"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        help="where data sets and arrays are, and stay; without, a directory for this run",
    )
    parser.add_argument("--first-byte", default="30ms")
    parser.add_argument("--connection-rate", default="80MB/s")
    parser.add_argument("--total-rate", help="of all connections; without, there is no limit")
    parser.add_argument("--warm", action="store_true", help="reads through another process")
    parser.add_argument(
        "--takeover", type=int, metavar="CLIENTS", help="kills a process that serves, 20 times"
    )
    parser.add_argument("--loader", action="store_true", help="epochs of PyTorch's DataLoader")
    parser.add_argument("--json", action="store_true", help="figures as JSON, a line each")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser, parser.parse_args()


def _installed(names: tuple[str | None, ...]) -> list[str]:
    """Those of the modules that are not there."""
    return [name for name in names if name and importlib.util.find_spec(name) is None]


def main() -> None:
    """The command."""
    parser, arguments = _arguments()
    if arguments.one:
        row, client, endpoint = arguments.one
        place = Place(endpoint, arguments.dir, arguments.seconds)
        print(json.dumps(ROWS[row].run(client, place)))
        return
    asked = arguments.rows or list(ROWS)
    rows = [row for name in asked for row in SUBJECTS.get(name, {name: None})]
    clients = arguments.clients.split(",") if arguments.clients else None
    for given, known in ((rows, list(ROWS)), (clients or [], list(CLIENTS))):
        for name in given:
            if name not in known:
                parser.error(f"{name!r} is unknown; known are {', '.join(known)}")
    for name in clients or []:
        for module in _installed((CLIENTS[name],)):
            parser.error(f"{module} is not installed; install it with `pip install {module}`")
    # So that a swap file is switched off, and the testbed ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    device = ["--first-byte", arguments.first_byte, "--connection-rate", arguments.connection_rate]
    if arguments.total_rate:
        device += ["--total-rate", arguments.total_rate]
    with tempfile.TemporaryDirectory(prefix="foreread-bench-") as made:
        directory = (arguments.dir or Path(made)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        store = Store(directory, device)
        place = Place(store.endpoint, directory, arguments.seconds)
        try:
            if arguments.warm or arguments.takeover or arguments.loader:
                _apart(store, place, arguments)
                return
            for row in rows:
                _row(store, place, row, clients, arguments)
        finally:
            store.stop()


def _apart(store: Store, place: Place, arguments: argparse.Namespace) -> None:
    """What prints its own lines."""
    if arguments.warm:
        from foreread.bench import warm

        store.ask("objects", {"key": "warm", "size": warm.SIZE, "generation": 1})
        warm.warm("s3://testbed/warm", place.options)
    elif arguments.takeover:
        from foreread.bench import takeover

        store.ask("objects", {"key": "takeover", "size": takeover.SIZE, "generation": 1})
        takeover.takeover("s3://testbed/takeover", place.options, arguments.takeover, 20)
    else:
        from foreread.bench import loader

        keys = [loader.key(nth) for nth in range(loader.FILES)]
        for part in objects(keys, loader.FILE_BYTES):
            store.ask("objects", part)
        loader.loader(place.options, store.ask)


def _row(
    store: Store,
    place: Place,
    name: str,
    asked: list[str] | None,
    arguments: argparse.Namespace,
) -> None:
    """Runs a row with its clients and prints it."""
    row = ROWS[name]
    missing = _installed(row.needs)
    if missing:
        print(f"{name}: left out without {', '.join(missing)}", file=sys.stderr)
        return
    clients = []
    for client in row.clients:
        if asked is None and _installed((CLIENTS[client],)):
            print(f"{name}: without {client}, which is not installed", file=sys.stderr)
        elif asked is None or client in asked:
            clients.append(client)
    row.prepare(store, place)
    runs: dict[str, list[Figures | None]] = {client: [] for client in clients}
    for _ in range(arguments.repeat):
        for client in clients:
            runs[client].append(measure(store, place, name, client))
    best = {client: fastest(row, runs[client]) for client in clients}
    for client, figures in best.items():
        if arguments.json:
            line = {"row": name, "client": client, "figures": figures, "runs": runs[client]}
            print(json.dumps(line), flush=True)
        else:
            text = "failed" if figures is None else shown(row, figures, best.get("foreread"))
            print(f"{name:16} {client:11} {text}", flush=True)


if __name__ == "__main__":
    main()

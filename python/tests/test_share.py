"""One engine for several processes: joined, taken over, opted out of."""

from __future__ import annotations

import asyncio
import errno
import gc
import multiprocessing
import os
import pickle
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foreread
import foreread.torch
from conftest import Testbed
from foreread.fsspec import ForereadFileSystem

SPAWN = multiprocessing.get_context("spawn")

pytestmark = pytest.mark.timeout(300)


def _obey(pipe: Any, options: dict[str, Any]) -> None:
    """Does what it is told, until it is told nothing more."""
    files: dict[str, Any] = {}
    while True:
        try:
            name, args = pipe.recv()
        except EOFError:
            return
        try:
            if name == "open":
                files[args[0]] = foreread.open(*args, **options)
                answer: Any = files[args[0]].version
            elif name == "take":
                files[args[0].name] = args[0]
                answer = None
            elif name == "close":
                answer = files.pop(args[0]).close()
            elif name == "read":
                answer = files[args[0]].read_at(*args[1:])
            elif name == "ranges":
                answer = files[args[0]].read_ranges(args[1])
            elif name == "begin":
                thread = threading.Thread(target=_storm, args=(pipe, files[args[0]], *args[1:]))
                thread.start()
                continue
            elif name == "stats":
                answer = foreread.stats()
            elif name == "call":
                answer = args[0](options, *args[1:])
            else:
                raise AssertionError(name)
        except Exception as error:
            answer = error
        pipe.send(answer)


def _storm(pipe: Any, file: Any, seed: int, count: int) -> None:
    """Reads at random places, in two threads, and sends whether all bytes were right."""
    wrong: list[str] = []

    def read(nth: int) -> None:
        at = random.Random(seed * 2 + nth)
        try:
            for _ in range(count):
                offset, length = at.randrange(SIZE - 400_000), at.randrange(1, 400_000)
                if file.read_at(offset, length) != CONTENT[0][offset : offset + length]:
                    wrong.append(f"{offset} {length}")
        except Exception as error:
            wrong.append(repr(error))

    CONTENT[:] = [_content(file.name, file._options)]
    pipe.send("begun")
    threads = [threading.Thread(target=read, args=(nth,)) for nth in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send(wrong)


SIZE = 16 << 20
CONTENT: list[bytes] = []


def _content(url: str, options: dict[str, Any]) -> bytes:
    """The object's bytes, by another way."""
    import urllib.request

    name = url.removeprefix("s3://testbed/")
    with urllib.request.urlopen(f"{options['endpoint']}/http/{name}", timeout=60) as response:
        data: bytes = response.read()
    return data


class Other:
    """Another process."""

    def __init__(self, options: dict[str, Any], context: Any = SPAWN) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process = context.Process(target=_obey, args=(theirs, options), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, name: str, *args: Any) -> Any:
        self.pipe.send((name, args))
        return self.answer()

    def answer(self) -> Any:
        assert self.pipe.poll(120), "the other process is silent"
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def others(testbed: Testbed) -> Iterator[Any]:
    """Makes other processes, which end with the test."""
    made: list[Other] = []

    def make(**options: Any) -> Other:
        made.append(Other({**testbed.options, **options}))
        return made[-1]

    yield make
    for other in made:
        other.kill()


def test_what_one_process_has_read_costs_another_no_request(
    testbed: Testbed, big: bytes, others: Any
) -> None:
    url, options = testbed.url("big"), {**testbed.options, "region": "ca-west-1"}
    first, other = others(**options), others(**options)
    version = first.ask("open", url)
    first.ask("read", url, 0, 4 << 20)
    first.ask("read", url, 40 << 20, 5000)
    assert other.ask("open", url) == version
    gets = testbed.counters()["get"]
    assert other.ask("read", url, 0, 4 << 20) == big[: 4 << 20]
    assert other.ask("read", url, (40 << 20) + 7, 4000) == big[(40 << 20) + 7 :][:4000]
    ranges = [(100, 50), (3 << 20, 1 << 20), (5, 0), (40 << 20, 10)]
    assert other.ask("ranges", url, ranges) == [big[at : at + len] for at, len in ranges]
    assert testbed.counters()["get"] == gets
    here, there = first.ask("stats"), other.ask("stats")
    assert (here["serves"], here["joins"], here["clients"]) == (1, 0, 1)
    assert (there["serves"], there["joins"], there["clients"]) == (0, 1, 1)
    assert here["stores"][0][1]["role"] == "serves"


def test_another_process_has_its_own_engine_if_it_wants(
    testbed: Testbed, big: bytes, others: Any
) -> None:
    url = testbed.url("big")
    foreread.open(url, **testbed.options).read_at(0, 100_000)
    other = others(share=False)
    other.ask("open", url)
    gets = testbed.counters()["get"]
    assert other.ask("read", url, 0, 100_000) == big[:100_000]
    assert testbed.counters()["get"] > gets
    there = other.ask("stats")
    assert (there["joins"], there["serves"]) == (0, 0)
    assert there["stores"][0][1]["role"] == "alone"


def test_other_credentials_have_another_engine(testbed: Testbed, others: Any) -> None:
    url = testbed.url("small")
    foreread.open(url, **testbed.options).read()
    for wrong in ({"key": "another"}, {"secret": "another"}):
        with pytest.raises(PermissionError):
            others(**wrong).ask("open", url)


def test_a_killed_server_is_succeeded_amid_reads(testbed: Testbed, others: Any) -> None:
    testbed.set_object("kills", SIZE)
    url = testbed.url("kills")
    # With a name of its own, so that this process does not serve.
    options = {**testbed.options, "region": "us-west-2"}
    server = others(**options)
    clients = [others(**options) for _ in range(3)]
    for process in [server, *clients]:
        process.ask("open", url)
    assert server.ask("stats")["clients"] == 3
    for seed, client in enumerate(clients):
        client.pipe.send(("begin", (url, seed, 60)))
    for client in clients:
        assert client.answer() == "begun"
    server.kill()
    for client in clients:
        assert client.answer() == []
    roles = [client.ask("stats")["serves"] for client in clients]
    assert sorted(roles) == [0, 0, 1]
    successor = clients[roles.index(1)]
    assert successor.ask("stats")["clients"] == 2
    successor.kill()
    rest = [client for client in clients if client is not successor]
    expected = _content(url, options)
    for client in rest:
        assert client.ask("read", url, 5_000_000, 3_000_000) == expected[5_000_000:8_000_000]
    assert sorted(client.ask("stats")["serves"] for client in rest) == [0, 1]


def test_a_server_that_exits_is_succeeded(testbed: Testbed, others: Any) -> None:
    url, options = testbed.url("small"), {**testbed.options, "region": "eu-west-1"}
    server, client = others(**options), others(**options)
    server.ask("open", url)
    client.ask("open", url)
    server.pipe.close()
    server.process.join(60)
    assert server.process.exitcode == 0
    assert len(client.ask("read", url, 0, 100_000)) == 100_000
    assert client.ask("stats")["serves"] == 1


def test_a_version_is_the_same_in_each_process(testbed: Testbed, others: Any) -> None:
    testbed.set_object("versions", SIZE, 1)
    url = testbed.url("versions")
    file = foreread.open(url, **testbed.options)
    other = others()
    other.ask("take", file)
    assert other.ask("read", url, 0, 10) == file.read_at(0, 10)
    testbed.set_object("versions", SIZE, 2)
    for read in (file.read_at, lambda *at: other.ask("read", url, *at)):
        with pytest.raises(foreread.VersionChanged) as raised:
            read(12 << 20, 10)
        assert raised.value.errno == errno.ESTALE and raised.value.filename == "versions"
    assert other.ask("open", url) != file.version
    assert (
        other.ask("read", url, 12 << 20, 1000) == _content(url, testbed.options)[12 << 20 :][:1000]
    )


def test_a_successor_reads_the_version_that_was_opened(testbed: Testbed, others: Any) -> None:
    testbed.set_object("succeeded", SIZE, 1)
    url, options = testbed.url("succeeded"), {**testbed.options, "region": "eu-west-2"}
    server, client = others(**options), others(**options)
    server.ask("open", url)
    client.ask("open", url)
    client.ask("read", url, 0, 10)
    testbed.set_object("succeeded", SIZE, 2)
    server.kill()
    with pytest.raises(foreread.VersionChanged):
        client.ask("read", url, 8 << 20, 10)


def test_errors_are_the_same_in_each_process(testbed: Testbed, others: Any) -> None:
    foreread.open(testbed.url("small"), **testbed.options)
    other = others()
    with pytest.raises(FileNotFoundError) as missing:
        other.ask("open", testbed.url("none"))
    assert missing.value.errno == errno.ENOENT and missing.value.filename == "none"
    testbed.set_object("errors", 100_000)
    other.ask("open", testbed.url("errors"))
    testbed.faults("status=403,kind=get,key=errors")
    with pytest.raises(PermissionError):
        other.ask("read", testbed.url("errors"), 50_000, 10)
    testbed.faults()
    assert len(other.ask("read", testbed.url("errors"), 50_000, 10)) == 10


def _two_of_many(options: dict[str, Any], url: str) -> tuple[list[int], int]:
    """Opens 20 stores and reads a file of 64 MiB through two, until both have it in memory.

    Returns the budgets of all, least first, and what they hold.
    """
    stores = [{**options, "region": f"eu-west-{nth}", "share": False} for nth in range(20)]
    files = [foreread.open(url, **store) for store in stores]
    for file in files:
        file.read(1)
    for count, file in enumerate((files[0], files[7]), 1):
        for _ in range(200):
            file.seek(0)
            while file.read(1 << 20):
                pass
            if foreread.stats()["memory_charged_bytes"] >= count * 64 << 20:
                break
        else:
            raise AssertionError("its store has no room for it")
    counters = foreread.stats()
    return sorted(store["memory_budget_bytes"] for _, store in counters["stores"]), counters[
        "memory_charged_bytes"
    ]


def test_stores_that_are_read_little_lend_their_part(
    testbed: Testbed, big: bytes, others: Any
) -> None:
    budgets, held = others().ask("call", _two_of_many, testbed.url("big"))
    assert len(budgets) == 20 and budgets[:-2] == [16 << 20] * 18
    assert budgets[-2] >= 64 << 20 and held <= 256 << 20


def test_the_largest_budget_that_was_set_holds(testbed: Testbed, others: Any) -> None:
    url, options = testbed.url("small"), {**testbed.options, "region": "eu-west-3"}

    def budget(other: Any) -> int:
        ((_, counters),) = other.ask("stats")["stores"]
        bytes: int = counters["memory_budget_bytes"]
        return bytes

    plain = others(**options)
    plain.ask("open", url)
    assert budget(plain) == 256 << 20
    small = others(**options, memory="32MiB")
    small.ask("open", url)
    assert budget(plain) == budget(small) == 32 << 20, "a default is no wish"
    large = others(**options, memory="64MiB")
    large.ask("open", url)
    assert budget(plain) == budget(small) == 64 << 20
    large.kill()
    while plain.ask("stats")["clients"] > 1:
        pass
    assert budget(plain) == 32 << 20


def _listed(options: dict[str, Any]) -> Any:
    from foreread.fsspec import ForereadFileSystem

    fs = ForereadFileSystem("s3", **options)
    found = sorted(fs.find("testbed/tree"))
    names = sorted(entry["name"] for entry in fs.ls("testbed/many/"))
    with fs.prefetch(names[:50]) as prefetch:
        sizes = {len(data) for data in fs.cat(names[:50]).values()}
    info = fs.info("testbed/tree/b")
    return found, names, prefetch.count, sizes, info["type"], fs.exists("testbed/tree/x")


def test_names_are_the_same_in_each_process(testbed: Testbed, others: Any) -> None:
    for nth in range(300):
        testbed.set_object(f"many/{nth:03}", 10)
    here = _listed(testbed.options)
    assert here[0] == ["testbed/tree/a", "testbed/tree/b/c"]
    assert len(here[1]) == 300 and here[2:] == (50, {10}, "directory", False)
    other = others()
    assert other.ask("call", _listed) == here
    assert other.ask("stats")["joins"] == 1


def _buckets(options: dict[str, Any]) -> Any:
    """What is told of the root of a bucket, and of one that does not exist."""
    fs = ForereadFileSystem("s3", **options)
    found = [fs.isdir("testbed"), fs.isdir("no-bucket")]
    return found, foreread.stats()["joins"]


def test_buckets_are_looked_for_through_another_process(testbed: Testbed, others: Any) -> None:
    options = {**testbed.options, "region": "eu-south-2"}
    assert others(**options).ask("call", _buckets) == ([True, False], 0)
    assert others(**options).ask("call", _buckets) == ([True, False], 2)


def _told(options: dict[str, Any], order: list[str], count: int) -> int:
    """Tells an order, which stays told, and reads the first of its files."""
    from foreread.fsspec import ForereadFileSystem

    fs = ForereadFileSystem("s3", **options)
    TOLD.append(fs.prefetch(order, ahead=400_000))
    found: int = TOLD[-1].__enter__().count
    for name in order[:count]:
        fs.cat_file(name)
    return found


TOLD: list[Any] = []


def _taken_back(options: dict[str, Any]) -> None:
    TOLD.pop().__exit__()


def _gets(testbed: Testbed) -> list[str]:
    return [request["key"] for request in testbed.requests() if request["kind"] == "get"]


@pytest.mark.parametrize("successor", ["the one that tells", "another"])
def test_a_successor_is_told_the_rest_of_an_order(
    testbed: Testbed, others: Any, successor: str
) -> None:
    # Five pages each: 19 of them are 400,000 bytes at most.
    names = [f"told-{len(successor)}/{nth * 37 % 100:02}" for nth in range(100)]
    for name in names:
        testbed.set_object(name, 20_000)
    order = [f"testbed/{name}" for name in names]
    options = {**testbed.options, "region": f"me-south-{len(successor)}"}
    server, second, teller = others(**options), others(**options), others(**options)
    server.ask("open", testbed.url("small"))
    if successor == "another":
        second.ask("open", testbed.url("small"))
    assert teller.ask("call", _told, order, 30) == 100
    while len(_gets(testbed)) < 30 + 19:
        pass
    testbed.reset()
    # Nothing is asked for: the process that has told the order notices by itself.
    server.kill()
    while len(_gets(testbed)) < 19:
        pass
    assert set(_gets(testbed)) == set(names[30:49]), "what was not read, and no more than was said"
    if successor == "another":
        second.ask("read", testbed.url("small"), 0, 10)
        assert second.ask("stats")["serves"] + teller.ask("stats")["serves"] == 1
    else:
        assert teller.ask("stats")["serves"] == 1
    teller.ask("call", _taken_back)


def test_the_orders_of_two_processes_are_both_followed(testbed: Testbed, others: Any) -> None:
    orders = []
    for side in ("one", "other"):
        names = [f"{side}/{nth * 37 % 100:02}" for nth in range(100)]
        for name in names:
            testbed.set_object(name, 20_000)
        orders.append([f"testbed/{name}" for name in names])
    options = {**testbed.options, "region": "me-west-1"}
    server, client = others(**options), others(**options)
    server.ask("open", testbed.url("small"))
    for process, order in zip((server, client), orders, strict=True):
        assert process.ask("call", _told, order, 1) == 100
    # What was read, and 19 ahead of it.
    for read in (1, 11):
        expected = {name for order in orders for name in order[: read + 19]}
        while {f"testbed/{key}" for key in _gets(testbed)} != expected:
            pass
        for process, order in zip((server, client), orders, strict=True):
            process.ask("call", _read_some, order[read : read + 10])
    for process in (server, client):
        process.ask("call", _taken_back)
    gets = _gets(testbed)
    assert len(gets) == len(set(gets))


def test_an_order_stays_when_another_process_takes_its_own_back(
    testbed: Testbed, others: Any
) -> None:
    for name in ("left", "right"):
        for nth in range(60):
            testbed.set_object(f"{name}/{nth:02}", 20_000)
    orders = [
        [f"testbed/{name}/{nth * 37 % 60:02}" for nth in range(60)] for name in ("left", "right")
    ]
    options = {**testbed.options, "region": "me-north-1"}
    server, client = others(**options), others(**options)
    server.ask("open", testbed.url("small"))
    assert client.ask("call", _told, orders[0], 1) == 60
    assert server.ask("call", _told, orders[1], 1) == 60
    client.ask("call", _taken_back)
    testbed.reset()
    server.ask("call", _read_some, orders[1][1:12])
    while len(_gets(testbed)) < 11:
        pass
    server.ask("call", _taken_back)


def _read_some(options: dict[str, Any], names: list[str]) -> None:
    from foreread.fsspec import ForereadFileSystem

    fs = ForereadFileSystem("s3", **options)
    for name in names:
        fs.cat_file(name)


def _awaited(options: dict[str, Any], url: str) -> Any:
    async def read() -> Any:
        async with foreread.open_async(url, **options) as file:
            return await asyncio.gather(*(file.read_at(at, 1000) for at in range(0, 10**6, 10**5)))

    return asyncio.run(read())


def test_asyncio_in_another_process(testbed: Testbed, big: bytes, others: Any) -> None:
    foreread.open(testbed.url("big"), **testbed.options)
    other = others()
    found = other.ask("call", _awaited, testbed.url("big"))
    assert found == [big[at : at + 1000] for at in range(0, 10**6, 10**5)]
    assert other.ask("stats")["joins"] == 1


def _traced(options: dict[str, Any], url: str, path: str) -> Any:
    file = foreread.open(url, **options)
    file.read_at(0, 10)
    joined = foreread.stats()["joins"]
    with foreread.trace(path) as recording:
        data = [file.read_at(at, 100) for at in range(0, 1000, 100)]
    return joined, recording.reads, b"".join(data), foreread.stats()["joins"]


def test_a_process_that_records_reads_by_itself(
    testbed: Testbed, big: bytes, others: Any, tmp_path: Path
) -> None:
    foreread.open(testbed.url("big"), **testbed.options)
    found = others().ask("call", _traced, testbed.url("big"), str(tmp_path / "trace"))
    assert found == (1, 10, big[:1000], 0)


def _mapped(options: dict[str, Any], url: str) -> Any:
    array = foreread.map(url, "uint8", **options)
    return bytes(array[1000:2000]), foreread.stats()["joins"]


def test_a_map_in_another_process(testbed: Testbed, big: bytes, others: Any) -> None:
    foreread.open(testbed.url("big"), **testbed.options)
    try:
        foreread.map(testbed.url("big"), "uint8", **testbed.options)
    except PermissionError:
        pytest.skip("the system forbids to answer page faults")
    assert others().ask("call", _mapped, testbed.url("big")) == (big[1000:2000], 1)


def _sum(file: Any, start: int, stop: int) -> int:
    return sum(map(sum, file.read_ranges([(at, 1000) for at in range(start, stop, 1000)])))


@pytest.fixture
def room() -> Iterator[None]:
    """Room for all that a test reads: engines of other tests have their parts of the budget."""
    before = foreread.configure()
    foreread.configure(memory="4GiB")
    yield
    foreread.configure(memory=before)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_fetch_an_object_once(
    testbed: Testbed, big: bytes, room: None, method: str
) -> None:
    testbed.set_object(f"once-{method}", SIZE)
    url = testbed.url(f"once-{method}")
    expected = sum(_content(url, testbed.options)[:4_000_000])
    testbed.reset()
    with foreread.open(url, **testbed.options) as file:
        parts = [(file, at, at + 500_000) for at in range(0, 4_000_000, 500_000)]
        for _epoch in range(3):
            # Workers that come and go.
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert sum(pool.starmap(_sum, parts, 1)) == expected
    assert testbed.counters()["bytes_sent"] < SIZE * 1.1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_epoch_stays_for_the_next(testbed: Testbed, room: None, method: str) -> None:
    names = [f"epochs-{method}/{nth:02}" for nth in range(40)]
    for name in names:
        testbed.set_object(name, 3000)
    urls = [testbed.url(name) for name in names]
    testbed.reset()
    # The process that makes the dataset reads nothing of it.
    samples = foreread.torch.Dataset(urls, transform=len, **testbed.options)
    parts = [(samples, list(range(part, 40, 2))) for part in range(2)]
    for _epoch in range(3):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert sum(pool.starmap(_total, parts, 1)) == 40 * 3000
        # Two workers with engines of their own would ask for each file twice. Files of the next
        # directory may be asked for as well: a walk may go on there.
        assert sorted(name for name in _gets(testbed) if name in names) == names


def _total(samples: Any, indices: list[int]) -> int:
    return sum(samples.__getitems__(indices))


def test_a_fork_of_a_process_that_joins(testbed: Testbed, big: bytes, others: Any) -> None:
    url = testbed.url("big")
    foreread.open(url, **testbed.options)
    other = others()
    other.ask("open", url)
    assert other.ask("call", _forked, url) == (big[77:177], big[50:60])
    assert other.ask("stats")["joins"] == 1


def _mixed(options: dict[str, Any], urls: list[str]) -> Any:
    samples = foreread.torch.Dataset(urls, **options)
    return samples.__getitems__(range(len(urls))), foreread.stats()["joins"]


def test_stores_may_be_mixed(testbed: Testbed, others: Any, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"local")
    urls = [testbed.url("small"), f"{testbed.endpoint}/http/tree/a", str(tmp_path / "local")]
    expected = [testbed.bytes_of("small"), testbed.bytes_of("tree/a"), b"local"]
    options = {**testbed.options, "region": "sa-east-1"}
    first, second = others(**options), others(**options)
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        for other, joins in ((first, 0), (second, 2)):
            found = other.ask("call", _mixed, [urls[nth] for nth in order])
            assert found == ([expected[nth] for nth in order], joins)


def _forked(options: dict[str, Any], url: str) -> Any:
    with foreread.open(url, **options) as file:
        before = file.read_at(50, 10)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, file.read_at(77, 100))
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        return data, before


def test_children_of_a_killed_server_do_not_hold_its_place(
    testbed: Testbed, big: bytes, others: Any
) -> None:
    url, options = testbed.url("big"), {**testbed.options, "region": "ap-south-1"}
    server, client = others(**options), others(**options)
    server.ask("open", url)
    client.ask("open", url)
    child = server.ask("call", _sleeping_child)
    try:
        server.kill()
        assert client.ask("read", url, 1000, 1000) == big[1000:2000]
        assert client.ask("stats")["serves"] == 1
    finally:
        os.kill(child, signal.SIGKILL)


def _sleeping_child(options: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child


def test_files_are_given_up_with_their_process(testbed: Testbed, others: Any) -> None:
    url, options = testbed.url("big"), {**testbed.options, "region": "ca-east-1"}
    server, other = others(**options), others(**options)
    server.ask("open", url)
    other.ask("open", url)
    assert server.ask("stats")["clients"] == 1
    # Amid a read that the storage does not answer.
    testbed.faults("stall,kind=get,key=big")
    other.pipe.send(("read", (url, 60 << 20, 10)))
    while server.ask("stats")["in_flight"] == 0:
        pass
    other.kill()
    testbed.faults()
    while server.ask("stats")["clients"] > 0:
        pass
    assert len(server.ask("read", url, 1 << 20, 1000)) == 1000


def test_a_file_system_is_sent(testbed: Testbed, others: Any) -> None:
    from foreread.fsspec import ForereadFileSystem

    fs = ForereadFileSystem("s3", share=False, **testbed.options)
    again = pickle.loads(pickle.dumps(fs))
    assert again._options["share"] is False
    assert again.cat_file("testbed/tree/a") == fs.cat_file("testbed/tree/a")
    del fs, again
    gc.collect()


def _part(fs: Any, name: str, at: int) -> int:
    with fs.open(name) as file:
        file.seek(at)
        return sum(file.read(256 << 10))


def _joined() -> int:
    joined: int = foreread.stats()["joins"]
    return joined


def test_workers_of_dask(testbed: Testbed, room: None) -> None:
    distributed = pytest.importorskip("distributed")
    from foreread.fsspec import ForereadFileSystem

    testbed.set_object("dask", 4 << 20)
    expected = sum(_content(testbed.url("dask"), testbed.options))
    fs = ForereadFileSystem("s3", **testbed.options)
    assert fs.size("testbed/dask") == 4 << 20
    testbed.reset()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        # Between two tasks no worker has the file open. If that takes long, what was on its way is
        # given up and asked for again; here the node has it open for as long as the work lasts.
        fs.open("testbed/dask") as held,
    ):
        held.read(1)
        for _epoch in range(2):
            places = range(0, 4 << 20, 256 << 10)
            parts = client.map(lambda at: _part(fs, "testbed/dask", at), places, pure=False)
            assert sum(client.gather(parts)) == expected
        assert set(client.run(_joined).values()) == {1}
    assert testbed.counters()["bytes_sent"] < 1.1 * (4 << 20)

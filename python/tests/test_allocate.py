"""Arrays of numpy that lie in a region, in whichever library they are made."""

from __future__ import annotations

import asyncio
import contextvars
import faulthandler
import gc
import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreread
from foreread import _native
from foreread.bench.arrays import cgroup

MIB = 1 << 20

#: Items of eight bytes: 8 MiB, four budgets.
COUNT = MIB
BUDGET = "2MiB"


@pytest.fixture
def memory(tmp_path: Path) -> foreread.Allocator:
    return foreread.allocate(budget=BUDGET, spill=tmp_path)


def lies_there(array: Any) -> bool:
    return _native.is_allocated(int(array.__array_interface__["data"][0]))


def test_what_numpy_makes_lies_there_and_gives_its_room_back(memory: foreread.Allocator) -> None:
    before = np.arange(COUNT)
    with memory:
        made = np.arange(COUNT) * 2 + 1
        zeroes = np.zeros((4, COUNT // 4))
        assert lies_there(made) and lies_there(zeroes) and lies_there(np.sort(made))
        assert (made == before * 2 + 1).all() and not zeroes.any()
        stats = memory.stats()
        assert (stats["arrays"], stats["bytes"]) == (2, 16 * MIB)
        # With the temporaries that there were meanwhile.
        assert 24 * MIB <= stats["bytes_max"] <= 40 * MIB
        assert stats["pages_mapped"] <= stats["pages_budget"] == 512
        assert stats["bytes_room"] >= 16 * MIB
    assert not lies_there(np.zeros(COUNT))
    del made, zeroes
    stats = memory.stats()
    assert (stats["arrays"], stats["bytes"], stats["pages_failed"]) == (0, 0, 0)
    assert stats["bytes_room"] <= 32 * MIB


def test_small_arrays_lie_in_ordinary_memory(memory: foreread.Allocator) -> None:
    with memory:
        small = [np.arange(n) + 1 for n in (0, 1, 100, MIB // 8 - 1)]
        assert not any(map(lies_there, small)) and lies_there(np.zeros(MIB, np.uint8))
        assert memory.stats()["arrays"] == 0
    assert [array.sum() for array in small] == [n * (n + 1) // 2 for n in (0, 1, 100, MIB // 8 - 1)]


def test_an_array_outlives_the_block_and_the_allocator() -> None:
    with foreread.allocate(budget=BUDGET):
        made = np.arange(COUNT)
    with foreread.allocate(budget=BUDGET):
        other = made + 1
    gc.collect()
    assert lies_there(made) and lies_there(other)
    assert (made == np.arange(COUNT)).all() and (other - made == 1).all()
    view = made[::2]
    del made
    assert view[-1] == COUNT - 2
    thread = threading.Thread(target=lambda held: held.clear(), args=([view],))
    del view
    thread.start()
    thread.join()
    gc.collect()
    assert lies_there(other) and other.sum() == COUNT * (COUNT + 1) // 2


def test_an_allocator_without_arrays_ends() -> None:
    def pagers() -> int:
        names = [(path / "comm").read_text() for path in Path("/proc/self/task").iterdir()]
        return names.count("foreread-pager\n")

    before = pagers()
    memory = foreread.allocate(budget=BUDGET)
    with memory:
        made = np.zeros(COUNT)
    del memory
    assert pagers() == before + 1 and lies_there(made)
    del made
    gc.collect()
    assert pagers() == before


def test_copies_of_a_large_array_share_the_budget_of_the_block(memory: foreread.Allocator) -> None:
    array = foreread.empty(COUNT, budget=BUDGET)
    array[:] = np.arange(COUNT)[::-1]
    with memory:
        sorts, order = np.sort(array), array.argsort()
        assert (sorts == np.arange(COUNT)).all() and (order == array).all()
        for made in (array.copy(), array.astype("f4"), sorts, order):
            assert lies_there(made) and made.region is None and isinstance(made, foreread.Array)
    assert array.copy().region is not None


def test_lengths_change(memory: foreread.Allocator) -> None:
    with memory:
        array = np.arange(1000)
        for length in (COUNT, 3 * COUNT, 2 * COUNT, 500, 2 * COUNT):
            array.resize(length, refcheck=False)
            assert lies_there(array) == (length > 500)
            assert (array[:500] == np.arange(500)).all()
        assert not array[500:].any()
        # It does not know how many there will be.
        counted = np.fromiter(iter(range(COUNT)), np.int64)
        assert lies_there(counted) and (counted == np.arange(COUNT)).all()


def test_threads_begin_with_ordinary_memory_and_may_enter(memory: foreread.Allocator) -> None:
    found: dict[str, Any] = {}

    def plain() -> None:
        found["plain"] = lies_there(np.zeros(COUNT))

    def enters(at: int) -> None:
        for turn in range(5):
            with memory:
                made = np.full(COUNT // 2, at * 100 + turn)
                assert lies_there(made) and (made == at * 100 + turn).all()
        found[str(at)] = made

    with memory:
        context = contextvars.copy_context()
        threads = [threading.Thread(target=contextvars.Context().run, args=(plain,))]
        threads += [threading.Thread(target=enters, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found.pop("plain") is False
    assert [(made[0], made[-1]) for _, made in sorted(found.items())] == [
        (at * 100 + 4, at * 100 + 4) for at in range(4)
    ]
    # What was copied within the block has it, also in another thread.
    thread = threading.Thread(
        target=context.run, args=(lambda: found.update(inner=lies_there(np.zeros(COUNT))),)
    )
    thread.start()
    thread.join()
    assert found["inner"]


def test_tasks_have_it_each_for_itself(memory: foreread.Allocator) -> None:
    async def inside(ready: asyncio.Event) -> bool:
        with memory:
            ready.set()
            await asyncio.sleep(0)
            return lies_there(np.zeros(COUNT))

    async def outside(ready: asyncio.Event) -> bool:
        await ready.wait()
        return lies_there(np.zeros(COUNT))

    async def both() -> list[bool]:
        ready = asyncio.Event()
        return await asyncio.gather(outside(ready), inside(ready))

    assert asyncio.run(both()) == [False, True]


def test_blocks_nest(memory: foreread.Allocator) -> None:
    inner = foreread.allocate(budget=BUDGET)
    with memory:
        first = np.zeros(COUNT)
        with inner, memory, inner:
            second = np.zeros(COUNT)
        third = np.zeros(COUNT)
        assert (memory.stats()["arrays"], inner.stats()["arrays"]) == (2, 1)
        with pytest.raises(ZeroDivisionError), inner:
            _ = 1 // 0
        fourth = np.zeros(COUNT)
        assert lies_there(fourth) and memory.stats()["arrays"] == 3
        inner.__enter__()
        with pytest.raises(RuntimeError, match="inner first"):
            memory.__exit__(None, None, None)
        inner.__exit__(None, None, None)
    assert not lies_there(np.zeros(COUNT))
    with pytest.raises(RuntimeError, match="inner first"):
        memory.__exit__(None, None, None)
    assert not (first.any() or second.any() or third.any())


def test_arrays_without_room_are_a_memory_error(memory: foreread.Allocator, tmp_path: Path) -> None:
    about = os.statvfs(tmp_path)
    count = (about.f_bavail * about.f_frsize + (1 << 30)) // 8
    with pytest.raises(MemoryError) as raised, memory:
        np.zeros(count)
    cause = raised.value.__cause__
    assert isinstance(cause, OSError) and str(tmp_path) in str(cause), cause
    with memory:
        with pytest.raises(MemoryError):
            np.zeros(1 << 57)
        assert lies_there(np.ones(COUNT))
    assert memory.stats()["bytes"] == 0
    with pytest.raises(ValueError, match="budget"):
        foreread.allocate(budget=1000)
    with pytest.raises(OSError, match="nowhere"):
        foreread.allocate(budget=BUDGET, spill="/nowhere/at/all")


def test_the_budget_changes(memory: foreread.Allocator) -> None:
    with memory:
        made = np.ones(COUNT)
    memory.set_budget("4MiB")
    assert made.sum() == COUNT and memory.stats()["pages_budget"] == 1024
    with pytest.raises(ValueError, match="budget"):
        memory.set_budget(1)


def files_are_written_and_read(directory: Path) -> None:
    """Of arrays that do not lie in memory."""
    with foreread.allocate(budget="1MiB", spill=directory) as memory:
        made = np.random.default_rng(1).random(COUNT)
        assert lies_there(made)
        # Without the right to it, numpy copies what is a subclass.
        to_write: Any = made if memory.system_calls else made.view(foreread.Array)
        path = directory / "array.npy"
        np.save(path, to_write)
        for loaded in (np.load(path), np.fromfile(path, np.float64, -1, "", 128)):
            assert lies_there(loaded) and (loaded == made).all()
        with open(path, "rb") as file:
            assert (np.load(file) == made).all()
            file.seek(64)
            part = np.fromfile(file, np.float64, COUNT, offset=64)
            assert lies_there(part) and (part == made).all()
            assert np.fromfile(file, np.float64).size == 0
            file.seek(-5 * MIB - 3, os.SEEK_END)
            rest = np.fromfile(file, np.float64, COUNT)
            assert (
                rest.size == 5 * MIB // 8 and rest.tobytes() == path.read_bytes()[-5 * MIB - 3 : -3]
            )
        to_write[1000:].tofile(directory / "raw")
        assert (np.fromfile(directory / "raw") == made[1000:]).all()
        archive = io.BytesIO()
        np.savez(archive, made)
        archive.seek(0)
        assert (np.load(archive)["arr_0"] == made).all()
        data: list[pickle.PickleBuffer] = []
        text = pickle.dumps(made, 5, buffer_callback=data.append)
        assert len(text) < 1000 and (pickle.loads(text, buffers=data) == made).all()
        if memory.system_calls:
            one, other = socket.socketpair()
            sender = threading.Thread(target=one.sendall, args=(made,))
            sender.start()
            received = np.empty(COUNT)
            at = 0
            while at < received.nbytes:
                at += other.recv_into(received.view(np.uint8)[at:])
            sender.join()
            one.close()
            other.close()
            assert lies_there(received) and (received == made).all()
        else:
            with pytest.raises(OSError), open(directory / "raw", "wb") as file:
                made.tofile(file)
            with pytest.raises(OSError, match="Bad address"), open(path, "rb", 0) as file:
                file.readinto(np.empty(COUNT).data)  # type: ignore[attr-defined]
        assert memory.stats()["pages_failed"] == 0
    text_file = directory / "text"
    text_file.write_text("1 2 3")
    assert np.fromfile(text_file, sep=" ").tolist() == [1, 2, 3]


def test_files_are_written_and_read(tmp_path: Path) -> None:
    files_are_written_and_read(tmp_path)


def test_so_they_are_without_the_right_to_it(tmp_path: Path) -> None:
    program = f"""
import functools, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from foreread import _native
_native.Allocator = functools.partial(_native.Allocator, kernel_faults=False)
import test_allocate
test_allocate.files_are_written_and_read(Path({str(tmp_path)!r}))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_user_without_a_right_has_memory(tmp_path: Path) -> None:
    permitted = Path("/proc/sys/vm/unprivileged_userfaultfd").read_text().strip() == "1"
    if os.getuid() != 0 or permitted:
        pytest.skip("it needs a user without a right")
    program = f"""
import os
import numpy as np, foreread, foreread._allocate
with foreread.allocate(budget="1MiB") as memory:
    assert memory.system_calls
os.setgid(65534), os.setuid(65534)
with foreread.allocate(budget="1MiB", spill="/var/tmp") as memory:
    assert not memory.system_calls
    assert np.arange({COUNT}).sum() == {COUNT * (COUNT - 1) // 2}
    assert memory.stats()["bytes_max"] == {8 * MIB}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_child_of_a_fork_is_told(memory: foreread.Allocator) -> None:
    with memory:
        made = np.ones(COUNT)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                own = np.full(COUNT, 2.0)
                assert not lies_there(own) and own.sum() == 2 * COUNT
                assert lies_there(made)
                for call in (memory.stats, memory.__enter__, lambda: memory.set_budget("4MiB")):
                    try:
                        call()
                    except OSError as error:
                        os.write(writing, str(error).encode())
                with foreread.allocate(budget=BUDGET):
                    inner = np.arange(COUNT)
                    assert lies_there(inner) and inner.sum() == COUNT * (COUNT - 1) // 2
                # What the parent made is freed here without harm.
                held = [made]
                del made, held[:], inner
                os.write(writing, b"done")
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
    assert text.count(b"after a fork the child has none") == 3 and text.endswith(b"done"), text
    assert os.waitpid(child, 0)[1] == 0
    touching = os.fork()
    if touching == 0:
        faulthandler.disable()
        made[5] = 1
        os._exit(0)
    assert os.waitpid(touching, 0)[1] & 0x7F == signal.SIGSEGV
    assert made.sum() == COUNT


@pytest.mark.parametrize("ends", ["", "memory.__exit__(None, None, None)", "1 // 0", "os._exit(1)"])
def test_the_interpreter_exits_with_arrays(ends: str) -> None:
    program = f"""
import os, threading
import numpy as np, foreread
memory = foreread.allocate(budget="1MiB")
memory.__enter__()
made = [np.ones({COUNT}) for _ in range(4)]
made.append(made)
print(sum(int(each.sum()) for each in made[:4]), flush=True)
{ends}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == f"{4 * COUNT}\n", ran.stderr
    assert ran.returncode == (1 if "1" in ends else 0), ran.stderr
    assert "Fatal" not in ran.stderr


def test_a_unique_array_is_sorted_where_it_lies() -> None:
    array = foreread.empty(COUNT, budget=BUDGET)
    array[:] = np.random.default_rng(1).integers(0, COUNT // 2, COUNT)
    array[::100] = np.nan
    ordinary = np.array(array)
    for options in ({}, {"equal_nan": False}, {"return_counts": True}):
        found, wanted = np.unique(array, **options), np.unique(ordinary, **options)  # type: ignore[call-overload]
        if not isinstance(found, tuple):
            found, wanted = (found,), (wanted,)
        assert all(map(np.array_equal, found, wanted, [True] * len(found)))
    assert np.unique(array[1:9].copy()).tolist() == np.unique(ordinary[1:9]).tolist()


#: What is run in a cgroup: `a` has 64 MiB of numbers that are all different and a budget of 16.
LARGE, LARGE_BUDGET = 64 * MIB, 16 * MIB

#: Of the cgroup that a process enters when it has imported what it needs: the budgets of the array
#: and the allocator, a twentieth of each, and what a library takes besides.
LIMIT = 2 * LARGE_BUDGET * 21 // 20 + 24 * MIB

PREPARED = f"""
import contextlib, hashlib, os, pickle, sys
import numpy as np
import foreread
%(imports)s
a = foreread.empty({LARGE // 8}, budget={LARGE_BUDGET})
for at in range(0, a.size, 1 << 17):
    a[at : at + (1 << 17)] = np.random.default_rng(at).random(1 << 17) + np.arange(at, at + (1 << 17))
rows = a.reshape(-1, 16)
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as file:
        file.write(str(os.getpid()))
is_there = sys.argv[1] == "allocate"
with foreread.allocate(budget={LARGE_BUDGET}) if is_there else contextlib.nullcontext() as memory:
    %(program)s
    told = hashlib.sha256()
    for part in np.array_split(np.asarray(result), 64):
        told.update(part.round(%(digits)s).tobytes())
    print(told.hexdigest(), flush=True)
    if is_there:
        del result
        assert memory.stats()["pages_failed"] == 0
"""

#: Imports, what is done, and how many digits are compared.
PROGRAMS = {
    "a + 1": ("", "result = a + 1", 17),
    "unique": ("", "result = np.unique(a)", 17),
    "scaled": ("", "result = (rows - rows.mean(0)) / rows.std(0)", 17),
    "argsort": ("", "result = a[np.argsort(-a)]", 17),
    "pickle": (
        "",
        "kept = []; text = pickle.dumps([a, a + 1], 5, buffer_callback=kept.append);"
        "result = pickle.loads(text, buffers=kept)[1]",
        17,
    ),
    "describe": ("import pandas", "result = pandas.DataFrame(rows).describe().to_numpy()", 6),
    "scaler": (
        "from sklearn.preprocessing import StandardScaler",
        "result = StandardScaler().fit_transform(rows)",
        6,
    ),
    "pca": (
        "from sklearn.decomposition import IncrementalPCA",
        "result = IncrementalPCA(4, batch_size=4096).fit_transform(rows).__abs__() / 1e6",
        4,
    ),
}


@pytest.fixture
def limited() -> Iterator[Path]:
    try:
        with cgroup(LIMIT) as command:
            yield Path(command[-1])
    except PermissionError:
        pytest.skip("it needs a memory cgroup")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_would_be_killed(name: str, limited: Path) -> None:
    imports, work, digits = PROGRAMS[name]
    for module in ("pandas", "sklearn"):
        if module in imports:
            pytest.importorskip(module)
    program = PREPARED % {"imports": imports, "program": work, "digits": digits}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *args]
        return subprocess.run(command, capture_output=True, text=True)

    wanted = run("ordinary")
    assert wanted.returncode == 0, wanted.stderr
    assert run("ordinary", str(limited)).returncode == -signal.SIGKILL
    found = run("allocate", str(limited))
    assert (found.returncode, found.stdout) == (0, wanted.stdout), found.stderr[-2000:]

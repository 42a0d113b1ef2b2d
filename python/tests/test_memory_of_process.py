"""What a process that reads takes beside its budget."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

from conftest import Testbed

#: What reads an object, and says how much the C library's heap has grown, and how many bytes more
#: were resident at most.
PROGRAM = """
import ctypes, json, re, sys
import foreread

MIB = 1 << 20

class Heap(ctypes.Structure):
    # Of `mallinfo2`; the first field is what all heaps have from the kernel.
    _fields_ = [(f"field{nth}", ctypes.c_size_t) for nth in range(10)]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Heap

def resident(field):
    with open("/proc/self/status") as status:
        return int(re.search(field + r":\\s+(\\d+) kB", status.read())[1]) << 10

url, options, backward = json.loads(sys.argv[1])
file = foreread.open(url, memory="256MiB", share=False, **options)
heap, before = library.mallinfo2().field0, resident("VmRSS")
places = range(0, file.size, MIB)
for at in reversed(places) if backward else places:
    file.read_at(at, MIB)
print(library.mallinfo2().field0 - heap, resident("VmHWM") - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks the C library of GNU")
@pytest.mark.parametrize("backward", [False, True])
def test_what_is_resident_is_the_budget_and_little_more(testbed: Testbed, backward: bool) -> None:
    testbed.set_object("huge", 1 << 30)
    given = json.dumps([testbed.url("huge"), testbed.options, backward])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, given], stdout=subprocess.PIPE, text=True, check=True
    )
    heap, resident = (int(number) >> 20 for number in ran.stdout.split())
    # Pieces of answers come and go: they leave no holes behind.
    assert heap < 20, f"{heap} MiB of heap"
    # What is on its way in connections, and the bytes that the program was given.
    assert resident - 256 < 48, f"{resident - 256} MiB beyond the budget"

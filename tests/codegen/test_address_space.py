"""Kernels load wherever the process has left room: sections of one kernel stay side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Every hole is filled, then single pages are opened 3 GiB apart: a loader that places sections one by one takes them.
_SINGLE_PAGES_FAR_APART = """
import ctypes
import mmap

import jitgrad

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NO_ACCESS, MAP_NORESERVE, GIB = 0, 0x4000, 1 << 30


def reserve(nbytes):
    return libc.mmap(None, nbytes, NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)


def function(a, b):
    return jitgrad.compile(lambda x: ((x * a).sin() + (x * b).exp()).sum())


def values(f):
    return [round(float(f(jitgrad.ones(5))), 4) for _ in range(3)]


assert values(function(1, 2)) == [41.1526] * 3  # whatever loads once is loaded now
blocks = [reserve(GIB) for _ in range(8)]
for nbytes in (1 << 24, 1 << 20, 1 << 16, mmap.PAGESIZE):
    while (hole := reserve(nbytes)) > min(blocks):
        pass
    libc.munmap(hole, nbytes)
for block in blocks[::3]:
    libc.munmap(block + mmap.PAGESIZE, mmap.PAGESIZE)
assert values(function(2, 1)) == [18.1379] * 3
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the script shapes its address space as Linux hands it out")
def test_a_kernel_loads_where_only_single_pages_are_free_nearby(tmp_path: Path) -> None:
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _SINGLE_PAGES_FAR_APART]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr

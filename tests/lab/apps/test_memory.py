"""What `superdex bench` reads from the operating system."""

import os
import subprocess
import sys

import pytest

from superdex.lab.apps.bench.memory import memory_of_family, parse_rollup

ROLLUP = """5596520d8000-7ffc8c800000 ---p 00000000 00:00 0                          [rollup]
Rss:                1732 kB
Pss:                 345 kB
Pss_Dirty:           112 kB
Pss_Anon:            100 kB
Pss_File:            233 kB
Pss_Shmem:            12 kB
"""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_rollup_is_split_into_all_and_data():
    assert parse_rollup(ROLLUP) == (345 * 1024, 112 * 1024)


def test_rollup_of_an_old_kernel_counts_all_as_data():
    assert parse_rollup("[rollup]\nPss: 345 kB\n") == (345 * 1024, 345 * 1024)


@on_linux
def test_family_includes_children():
    alone = memory_of_family()
    program = "import sys; block = bytearray(b'x' * 50_000_000); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        family = memory_of_family()
    assert alone is not None
    assert family is not None
    assert 50e6 < family.data - alone.data < 100e6
    assert family.total >= family.data


@on_linux
def test_memory_of_a_process_that_has_ended_is_unknown():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert child.pid != os.getpid()
    assert memory_of_family(child.pid) is None

"""Shared memory: who finds it, and who does not."""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import subprocess
import sys

import pytest

from erasurehead.engines._shared_memory import SharedBlock, accept, offer

from ..bounded import PATIENCE
from .mapping import maps_in_advance

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the open files of a process")

LOOK = """
import sys
from erasurehead.engines._shared_memory import accept
block = accept(bytes.fromhex(sys.argv[1]))
if block is None:
    print("nothing")
else:
    print(block.array(0, 3).tolist())
    block.array(0, 3)[:] += 1.0
"""


def look(offered: bytes) -> str:
    """Return what another process finds."""
    command = [sys.executable, "-c", LOOK, offered.hex()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.strip()


@pytest.mark.slow
def test_another_process_finds_the_same_memory_until_it_is_closed() -> None:
    block = SharedBlock(24)
    block.array(0, 3)[:] = [1.0, 2.0, 3.0]
    offered = offer(block)
    assert look(offered) == "[1.0, 2.0, 3.0]"
    assert block.array(0, 3).tolist() == [2.0, 3.0, 4.0]
    block.close()
    assert look(offered) == "nothing"
    assert block.array(0, 3).tolist() == [2.0, 3.0, 4.0]


def test_a_file_that_has_taken_the_number_of_the_memory_is_not_written_to() -> None:
    block = SharedBlock(24)
    offered = offer(block)
    (address, _) = block.__getstate__()
    block.close()
    number = int(address.path.rpartition("/")[2])
    other = os.memfd_create("other")
    os.ftruncate(other, 24)
    if other != number:
        os.dup2(other, number)
        os.close(other)
    try:
        assert look(offered) == "nothing"
        assert os.pread(number, 24, 0) == bytes(24)
    finally:
        os.close(number)


def test_what_cannot_be_found_is_offered_as_nothing() -> None:
    block = SharedBlock(24)
    block.close()
    with pytest.raises(OSError, match="cannot be found by other processes"):
        pickle.dumps(block)
    assert offer(block) == b""
    assert offer(None) == b""
    assert accept(b"") is None


def faults_of_writing(block: SharedBlock, n_numbers: int) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block.array(0, n_numbers)[:] = 1.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not maps_in_advance(), reason="this system cannot map pages in advance")
def test_touched_pages_are_there_before_they_are_written_and_no_others() -> None:
    pages, numbers = 256, mmap.PAGESIZE // 8
    touched, half, untouched = (SharedBlock(pages * mmap.PAGESIZE) for _ in range(3))
    touched.touch()
    half.touch(pages // 2 * mmap.PAGESIZE)
    assert faults_of_writing(touched, pages * numbers) < pages // 8
    assert pages // 2 <= faults_of_writing(half, pages * numbers) < pages // 2 + pages // 8
    assert faults_of_writing(untouched, pages * numbers) >= pages
    for block in (touched, half, untouched):
        block.close()

"""Which arrays are on disk, and where: each is written once, however many checkpoints it belongs to."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from erasurehead._internal import state_json as trees
from erasurehead._internal.arrays import AnyArray, Tree
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.tensor_files import TensorFile, save_tensors

MOST_BYTES = 64 << 20
"""Bytes of tensors in one file, unless a single one is larger: files are read into memory as a whole."""

SMALL, ALIKE = 1 << 20, 8
"""Files smaller than `SMALL` bytes are merged, `ALIKE` files of about the same size at a time."""


class TensorStore:
    """Files of tensors in a folder, each tensor with a number.

    Optimizers, orders in flight and snapshots share arrays, and nobody changes an array once others can see it. So a
    stored array is recognised by its identity as long as somebody holds it, and its contents need not be compared.

    A file is written once and never changed. The part of it that still belongs to the state shrinks; when it is less
    than half, it is copied into the next file, and the old file is dropped. So the files of a state hold at most twice
    its bytes, and in total at most twice the new bytes are written. Small files of about the same size are merged by
    eights, so that there are few files, and each byte is copied only a few times.

    Arguments:
        files: stored files by name.
        arrays: stored arrays by number.
        next_tensor: number of the next new tensor.
        next_file: number of the next file.
    """

    def __init__(
        self,
        files: Mapping[str, TensorFile] | None = None,
        arrays: Mapping[int, AnyArray] | None = None,
        next_tensor: int = 0,
        next_file: int = 0,
    ) -> None:
        self.files = dict(files or {})
        self.next_tensor = next_tensor
        self.next_file = next_file
        self._known = _references(arrays or {})

    def put(self, tree: Tree, folder: Folder) -> Any:
        """Write the arrays of a state that are not stored yet; return the state with their numbers in place of arrays.

        Afterwards `files` has exactly the files with the state's arrays.

        Arguments:
            tree: the state.
            folder: folder of the files.

        Raises:
            OSError: if a file cannot be written.
        """
        arrays: dict[int, AnyArray] = {}
        numbers: dict[int, int] = {}

        def refer(array: AnyArray) -> int:
            number = numbers.get(id(array))
            if number is None:
                number = self._number(array)
                numbers[id(array)] = number
                arrays[number] = array
            return number

        encoded = trees.encode(tree, refer)
        kept = _worth_keeping(self.files, arrays)
        stored = {number for file in kept.values() for number in file.tensors}
        for batch in _batches({number: array for number, array in arrays.items() if number not in stored}):
            name = f"tensors-{self.next_file:07d}.safetensors"
            kept[name] = save_tensors(folder, name, batch)
            self.next_file += 1
        self.files = kept
        self._known = _references(arrays)
        return encoded

    def _number(self, array: AnyArray) -> int:
        entry = self._known.get(id(array))
        if entry is not None and entry[0]() is array:
            return entry[1]
        self.next_tensor += 1
        return self.next_tensor - 1


def _references(arrays: Mapping[int, AnyArray]) -> dict[int, tuple[weakref.ref[AnyArray], int]]:
    return {id(array): (weakref.ref(array), number) for number, array in arrays.items()}


def _worth_keeping(files: Mapping[str, TensorFile], wanted: Mapping[int, Any]) -> dict[str, TensorFile]:
    """Return the files to keep; the wanted arrays in other files have to be written again."""
    kept: dict[str, TensorFile] = {}
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for name, file in files.items():
        used = sum(slot.bytes for number, slot in file.tensors.items() if number in wanted)
        if any(number in wanted for number in file.tensors) and 2 * used >= file.total:
            kept[name] = file
            if used < SMALL:
                alike[used.bit_length() // 3].append(name)
    for names in alike.values():
        if len(names) >= ALIKE:
            for name in names:
                del kept[name]
    return kept


def _batches(arrays: Mapping[int, AnyArray]) -> Iterator[dict[int, AnyArray]]:
    batch: dict[int, AnyArray] = {}
    size = 0
    for number, array in arrays.items():
        if batch and size + array.nbytes > MOST_BYTES:
            yield batch
            batch, size = {}, 0
        batch[number] = array
        size += array.nbytes
    if batch:
        yield batch

"""Checkpoints of a run: what is needed to go on to the bit, in files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from erasurehead.arrays import Tree
from erasurehead.errors import DataError, check_count
from erasurehead.records import trees
from erasurehead.records.durable import remove, sync_file, sync_folder, unwritable
from erasurehead.records.manifests import MANIFEST_NAME, Manifest, read_manifest
from erasurehead.records.places import CHECKPOINTS
from erasurehead.records.rowfile import check_cut
from erasurehead.records.shelf import Shelf
from erasurehead.records.tensors import load_tensors


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state, as it was read back.

    Attributes:
        step: number of steps done.
        state: as the training loop gave it.
        records: file of rows in the run folder -> bytes of it that belong to these steps.
        facts: what the run is.
        passed_over: why newer checkpoints cannot be used, one sentence each.
    """

    step: int
    state: Mapping[str, Any]
    records: Mapping[str, int]
    facts: Mapping[str, Any]
    passed_over: tuple[str, ...] = ()


class CheckpointStore:
    """The checkpoints of one run, in a folder `checkpoints` of its run folder.

    A checkpoint is a manifest, `step-0000123.json`, and the files of tensors that it names. The tensors are on disk
    before the manifest, the manifest before older ones are removed, so that whatever happens at whatever moment, the
    newest checkpoint that was ever finished can be read, or a newer one.

    Arguments:
        run: the run folder.
        keep: how many of the newest checkpoints are kept, at least 1.
    """

    def __init__(self, run: Path, keep: int = 2) -> None:
        self.run = run
        self.folder = run / CHECKPOINTS
        self.keep = check_count("keep", keep)
        self._kept: list[Manifest] = []  # ascending
        self._shelf = Shelf(self.folder)
        self._is_tidy = False

    @property
    def step(self) -> int | None:
        """Steps of the newest checkpoint that is safe on disk; None if there is none."""
        return self._kept[-1].step if self._kept else None

    def save(self, step: int, state: Tree, records: Mapping[str, int], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint, and remove what is older than those to be kept.

        Arguments:
            step: number of steps done; greater than that of any before.
            state: as `Instrument.settled` has it.
            records: file of rows in the run folder -> bytes of it that belong to these steps.
            facts: what the run is, as plain data.

        Raises:
            RecordsError: if something cannot be written; the checkpoints before this one are as they were.
        """
        self.tidy()
        encoded = self._shelf.put(state)
        for name in records:
            sync_file(self.run / name)
        shelf = self._shelf
        manifest = Manifest(step, records, facts, dict(shelf.files), shelf.next_tensor, shelf.next_file, encoded)
        manifest.write(self.folder)
        sync_folder(self.folder)
        self._kept.append(manifest)
        self._prune()

    def load(self) -> Checkpoint:
        """Read the newest checkpoint that is whole, and go on from there with the next `save`.

        Raises:
            DataError: if there is none, saying what is wrong with the newest.
        """
        found = sorted(self._manifests(), reverse=True)
        passed_over: list[str] = []
        for place, (_, path) in enumerate(found):
            try:
                manifest = read_manifest(path)
                state, arrays = self._read(manifest)
            except DataError as error:
                passed_over.append(str(error))
                continue
            self._shelf = Shelf(self.folder, manifest.files, arrays, manifest.next_tensor, manifest.next_file)
            self._kept = [*_readable(path for _, path in sorted(found[place + 1 :])), manifest]
            self._is_tidy = False
            return Checkpoint(manifest.step, state, manifest.records, manifest.facts, tuple(passed_over))
        raise self._nothing(passed_over)

    def newest(self) -> tuple[int, Mapping[str, Any]]:
        """Return step and facts of the newest checkpoint whose manifest is whole, without reading any state.

        Raises:
            DataError: if there is none, saying what is wrong with the newest.
        """
        said: list[str] = []
        for _, path in sorted(self._manifests(), reverse=True):
            try:
                manifest = read_manifest(path)
            except DataError as error:
                said.append(str(error))
            else:
                return manifest.step, manifest.facts
        raise self._nothing(said)

    def _nothing(self, said: Sequence[str]) -> DataError:
        run = repr(str(self.run))
        return DataError(
            f"No checkpoint in {run} can be used. {' '.join(said)}" if said else f"There is no checkpoint in {run}."
        )

    def tidy(self) -> None:
        """Make the folder, and remove from it what no checkpoint that is to be kept knows of.

        Newer checkpoints that were passed over are among it: once the records go on from an older one, they are of
        another run.

        Raises:
            RecordsError: if that cannot be done.
        """
        if self._is_tidy:
            return
        try:
            if not self.folder.is_dir():
                self.folder.mkdir()
                sync_folder(self.run)
            there = list(self.folder.iterdir())
        except OSError as error:
            raise unwritable(self.folder, error) from error
        used = self._used()
        manifests = [path for _, path in self._manifests()]
        remove(path for path in manifests if path.name not in used)
        remove(path for path in there if path.name not in used and path not in manifests)
        self._is_tidy = True

    def clear(self) -> None:
        """Remove all checkpoints, and the folder.

        Raises:
            RecordsError: if that cannot be done.
        """
        if not self.folder.is_dir():
            return
        remove(path for _, path in sorted(self._manifests()))
        remove(self.folder.iterdir())
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        self._kept, self._shelf = [], Shelf(self.folder)

    def _read(self, manifest: Manifest) -> tuple[Mapping[str, Any], dict[int, NDArray[Any]]]:
        for name, size in manifest.records.items():
            check_cut(self.run / Path(name).name, size)
        arrays: dict[int, NDArray[Any]] = {}
        for name, file in manifest.files.items():
            arrays |= load_tensors(self.folder / name, file)
        try:
            state = trees.decode(manifest.state, arrays)
        except (RecursionError, TypeError, ValueError) as error:
            raise DataError(f"{self.folder / manifest.name} holds no state ({error}).") from None
        if not isinstance(state, dict):
            raise DataError(f"{self.folder / manifest.name} holds no state.")
        return cast("dict[str, Any]", state), arrays

    def _manifests(self) -> list[tuple[int, Path]]:
        """Return the step and the path of every manifest."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DataError(f"{self.folder} cannot be read: {error.strerror}.") from None
        matches = (MANIFEST_NAME.fullmatch(name) for name in names)
        return [(int(match[1]), self.folder / match[0]) for match in matches if match]

    def _prune(self) -> None:
        dropped, self._kept = self._kept[: -self.keep], self._kept[-self.keep :]
        remove(self.folder / manifest.name for manifest in dropped)
        unused = {name for manifest in dropped for name in manifest.files} - self._used()
        remove(self.folder / name for name in sorted(unused))

    def _used(self) -> set[str]:
        return {name for manifest in self._kept for name in (manifest.name, *manifest.files)}


def _readable(paths: Iterable[Path]) -> list[Manifest]:
    manifests: list[Manifest] = []
    for path in paths:
        with contextlib.suppress(DataError):
            manifests.append(read_manifest(path))
    return manifests

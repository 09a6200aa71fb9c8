"""Writes and reads checkpoints: all that is needed to continue bit for bit, in files that are written atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from erasurehead._internal import state_json as trees
from erasurehead._internal.arrays import AnyArray, Tree
from erasurehead._internal.atomic_files import unwritable
from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.checksums import Checksum, Running
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.sealed import NOT_SEALED, why
from erasurehead._internal.tensor_files import load_tensors
from erasurehead.errors import DataError, check_count, unreadable
from erasurehead.runs._checkpoints.manifests import Manifest, read_manifest
from erasurehead.runs._checkpoints.tensor_store import TensorStore
from erasurehead.runs._jsonl import check_cut
from erasurehead.runs._names import CHECKPOINTS, MANIFEST_NAME, of_checkpoints


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state that was read from disk.

    Attributes:
        step: number of steps done.
        state: the training loop's state.
        records: for each file of rows in the run folder, the bytes that belong to these steps.
        facts: what identifies the run.
        passed_over: why newer checkpoints cannot be used, one sentence each.
    """

    step: int
    state: Mapping[str, Any]
    records: Mapping[str, int]
    facts: Entries
    passed_over: tuple[str, ...] = ()


class CheckpointStore:
    """The checkpoints of one run, in a folder `checkpoints` of its run folder.

    A checkpoint is a manifest, `step-0000123.json`, and the files of tensors that it names. The tensors are on disk
    before the manifest, and the manifest before older ones are removed, so that at any moment the newest checkpoint
    that was ever finished, or a newer one, can be read. Files of rows are verified by an incremental checksum: what was
    read for one checkpoint is not read again for the next.

    Arguments:
        run: the run folder.
        keep: number of newest checkpoints to keep, at least 1.
        access: who may read them.
    """

    def __init__(self, run: Path, keep: int = 2, access: Access = "private") -> None:
        self.run = run
        self.folder = run / CHECKPOINTS
        self.keep = check_count("keep", keep)
        self.access: Access = access
        self._kept: list[Manifest] = []  # ascending
        self._tensors = TensorStore()
        self._rows: dict[str, Running] = {}
        self._is_tidy = False

    @property
    def step(self) -> int | None:
        """Steps of the newest checkpoint that is safe on disk; None if there is none."""
        return self._kept[-1].step if self._kept else None

    def save(self, step: int, state: Tree, records: Mapping[str, int], facts: Entries, *, alone: bool = False) -> None:
        """Write a checkpoint, and remove old ones.

        Arguments:
            step: number of steps done; greater than that of any checkpoint before, or equal to that of one that it
                replaces.
            state: as in `Callback.on_state`.
            records: for each file of rows in the run folder, the bytes that belong to these steps.
            facts: what identifies the run, as plain data.
            alone: whether it replaces all checkpoints before it.

        Raises:
            RecordsError: if something cannot be written, or a file of rows has become shorter than that, or is gone;
                earlier checkpoints remain as they were.
        """
        self.tidy()
        with self._writing(), Folder.open(self.run, self.access) as run, run.inside(CHECKPOINTS) as folder:
            encoded = self._tensors.put(state, folder)
            written: dict[str, Checksum] = {}
            for name, size in records.items():
                run.sync_file(name)
                written[name] = self._rows.setdefault(name, Running()).upto(run, name, size)
            tensors = self._tensors
            manifest = Manifest(
                step, written, facts, dict(tensors.files), tensors.next_tensor, tensors.next_file, encoded
            )
            manifest.write(folder)
            folder.sync()
            self._replace(folder, manifest, 1 if alone else self.keep)

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        """Raise system errors in this block as a `RecordsError` that names the file."""
        try:
            yield
        except OSError as error:
            raise unwritable(Path(str(error.filename or self.folder)), error) from error

    def load(self) -> Checkpoint:
        """Read the newest intact checkpoint, and continue from there with the next `save`.

        Raises:
            DataError: if there is none; the error says what is wrong with the newest.
        """
        passed_over: list[str] = []
        with self._reading() as (run, folder):
            names = _manifests(folder.names())
            for place, name in enumerate(reversed(names), start=1):
                try:
                    manifest = read_manifest(folder, name)
                    state, arrays, rows = self._read(manifest, run, folder)
                except DataError as error:
                    passed_over.append(str(error))
                    continue
                self._tensors = TensorStore(manifest.files, arrays, manifest.next_tensor, manifest.next_file)
                self._kept = [*_readable(folder, names[: len(names) - place]), manifest]
                self._rows = rows
                self._is_tidy = False
                sizes = {name: written.bytes for name, written in manifest.records.items()}
                return Checkpoint(manifest.step, state, sizes, manifest.facts, tuple(passed_over))
        raise self._nothing(passed_over)

    def newest(self) -> tuple[int, Entries]:
        """Return step and facts of the newest checkpoint whose manifest is intact, without reading any state.

        Raises:
            DataError: if there is none; the error says what is wrong with the newest.
        """
        complaints: list[str] = []
        with self._reading() as (_, folder):
            for name in reversed(_manifests(folder.names())):
                try:
                    manifest = read_manifest(folder, name)
                except DataError as error:
                    complaints.append(str(error))
                else:
                    return manifest.step, manifest.facts
        raise self._nothing(complaints)

    @contextlib.contextmanager
    def _reading(self) -> Generator[tuple[Folder, Folder]]:
        """Open the run folder and that of its checkpoints.

        Raises:
            DataError: if there is none, it cannot be read, or it is not a folder.
        """
        with contextlib.ExitStack() as opened:
            try:
                run = opened.enter_context(Folder.open(self.run))
                folder = opened.enter_context(run.inside(CHECKPOINTS))
            except FileNotFoundError:
                raise self._nothing(()) from None
            except OSError as error:
                raise unreadable(self.folder, error) from None
            yield run, folder

    def _nothing(self, complaints: Sequence[str]) -> DataError:
        """Return the error for a run without a checkpoint that can be used, given what is wrong with each."""
        run = repr(str(self.run))
        if not complaints:
            return DataError(f"There is no checkpoint in {run}.")
        return DataError(f"No checkpoint in {run} can be used. {' '.join(complaints)}")

    def tidy(self) -> None:
        """Create the folder, and remove from it whatever does not belong to a checkpoint that is kept.

        This includes newer checkpoints that were passed over: once the records continue from an older one, they belong
        to another run. Files that are not named like checkpoints are not ours, and stay.

        Raises:
            RecordsError: if that is impossible.
        """
        if self._is_tidy:
            return
        with self._writing(), Folder.open(self.run, self.access) as run, run.inside(CHECKPOINTS, make=True) as folder:
            _remove(folder, self._used())
        self._is_tidy = True

    def clear(self) -> None:
        """Remove all checkpoints, and the folder, unless there are other files in it.

        Raises:
            RecordsError: if that is impossible.
        """
        with self._writing(), Folder.open(self.run) as run:
            if run.kind(CHECKPOINTS) != "folder":
                return
            with run.inside(CHECKPOINTS) as folder:
                _remove(folder, set())
            with contextlib.suppress(OSError):
                run.remove_folder(CHECKPOINTS)
        self._kept, self._tensors, self._is_tidy = [], TensorStore(), False

    def _read(
        self, manifest: Manifest, run: Folder, folder: Folder
    ) -> tuple[Mapping[str, Any], dict[int, AnyArray], dict[str, Running]]:
        rows = {name: check_cut(run, name, written) for name, written in manifest.records.items()}
        arrays: dict[int, AnyArray] = {}
        for name, file in manifest.files.items():
            arrays |= load_tensors(folder, name, file)
        try:
            state = trees.decode(manifest.state, arrays)
        except NOT_SEALED as error:
            raise DataError(f"{self.folder / manifest.name} holds no state ({why(error)}).") from None
        if not isinstance(state, dict):
            raise DataError(f"{self.folder / manifest.name} holds no state.")
        return cast("dict[str, Any]", state), arrays, rows

    def _replace(self, folder: Folder, newest: Manifest, keep: int) -> None:
        """Add a manifest to those that are kept, and remove what none of them needs, manifests first."""
        before = self._used()
        self._kept = [*(manifest for manifest in self._kept if manifest.step != newest.step), newest][-keep:]
        for name in sorted(before - self._used(), key=lambda name: (MANIFEST_NAME.fullmatch(name) is None, name)):
            folder.remove(name)

    def _used(self) -> set[str]:
        return {name for manifest in self._kept for name in (manifest.name, *manifest.files)}


def _manifests(names: Iterable[str]) -> list[str]:
    """Return the names of manifests, by step."""
    matches = (MANIFEST_NAME.fullmatch(name) for name in names)
    return [match[0] for match in sorted((match for match in matches if match), key=lambda match: int(match[1]))]


def _remove(folder: Folder, used: set[str]) -> None:
    """Remove unused files that are named like checkpoints, manifests first, after checking all of them."""
    names = [name for name in folder.names() if of_checkpoints(name) and name not in used]
    for name in names:
        folder.check_file(name)
    for name in sorted(names, key=lambda name: MANIFEST_NAME.fullmatch(name) is None):
        folder.remove(name)


def _readable(folder: Folder, names: Iterable[str]) -> list[Manifest]:
    manifests: list[Manifest] = []
    for name in names:
        with contextlib.suppress(DataError):
            manifests.append(read_manifest(folder, name))
    return manifests

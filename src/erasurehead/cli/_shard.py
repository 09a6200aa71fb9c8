"""`erasurehead shard`: split a file of any size into a folder from which each worker reads its own tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from erasurehead._internal.documents import PlainData
from erasurehead._internal.signals import terminable
from erasurehead.cli._findings import spanned
from erasurehead.cli._options import (
    FILE_KEYS,
    FileOptions,
    OutputOptions,
    argument,
    option,
    options_of,
)
from erasurehead.cli._output import Screen
from erasurehead.errors import counted, invalid
from erasurehead.runs._config.sections import Config

if TYPE_CHECKING:
    from erasurehead.datasets._sharded import ShardFolder

HELP = """
Cut a file into shards, so that each worker reads its own part of the data.

[bold]erasurehead shard clicks.csv --label clicked --one-hot site,ad \\
    --tasks 60 --out /data/clicks[/bold]
  60 files of rows, encoded, with checksums and a manifest. The file may be
  larger than memory: CSV, Parquet, LIBSVM and .npy are read in blocks.

[bold]erasurehead train --data /data/clicks --workers 30[/bold]
  Train from it. The scheme's number of tasks must divide that of the shards:
  60 serves 60, 30, 20, 15, 12, 10, 6, ... tasks. The model is the one that
  training on the file itself gives, to the bit.

[bold]erasurehead train --data /data/clicks --data-at '/scratch/{host}/clicks'[/bold]
  The workers see the folder elsewhere, for example on a disk of their own.
  A worker needs only the files of its tasks; this machine needs all others.

[bold]erasurehead shard /data/clicks --placement hosts.json[/bold]
  It says which machine has which tasks: {"node1": [0, 1], "node2": [1, 2]}.
  Training then has a worker on each, computes where the data are, and waits
  for no more of them than hold all tasks.

[bold]erasurehead shard --check /scratch/clicks[/bold]
  Is a copy complete? Every file is read, and its checksum compared.

The columns, the labels and the split are chosen here, and not when training:
they are fixed in the shards.
"""

_SHARDS = "Shards"


@options_of(
    Config,
    *(*FILE_KEYS, "data.test_fraction", "problem.loss", "run.access"),
    texts={
        "run.access": "Who may read the folder: private (the default: only you), group or all; workers that run under "
        "other user ids need one of these."
    },
)
class EncodingOptions(FileOptions):
    """Options on how the rows of the file are encoded as numbers, and on who may read them."""


def run(
    *,
    file: str = argument("FILE", "CSV, Parquet, LIBSVM, .npy or .npz; a folder, with --check, or for --placement."),
    tasks: int | None = option("--tasks, -t", "Number of shards to make.", panel=_SHARDS, metavar="N"),
    out: str | None = option("--out, -o", "Folder for the shards, new or empty.", panel=_SHARDS, metavar="FOLDER"),
    placement: str | None = option(
        "--placement", "JSON file: which machine has which tasks.", panel=_SHARDS, metavar="FILE"
    ),
    check: bool = option(
        "--check", "Compare the files of a folder with their checksums.", panel=_SHARDS, default=False
    ),
    seed: int = option("--seed", "Seed of the random split (0).", panel="Data", metavar="N", default=0),
    encoding: EncodingOptions,
    output: OutputOptions,
) -> None:
    """Cut a file into shards."""
    screen = Screen(output)
    if check:
        _check(file, {"--tasks": tasks, "--out": out, "--placement": placement}, screen)
        return
    from erasurehead.datasets import shard
    from erasurehead.datasets._sharded import ShardFolder, is_sharded
    from erasurehead.datasets._sharded.placement import read_placement
    from erasurehead.problems._families import task_of

    if placement is not None and is_sharded(file):
        _left_out({"--tasks": tasks, "--out": out}, "for a folder of shards")
        folder = ShardFolder.open(file)
        folder.place(placement)
        screen.result(_facts(folder), _described(folder))
        return
    if tasks is None or out is None:
        missing = "--tasks" if tasks is None else "--out"
        raise invalid(missing, "must be given", None, "try --tasks 30 --out shards")
    if placement is not None:
        read_placement(placement, tasks)  # before anything else is read
    given = encoding.tables()
    how: PlainData = {**given.get("data", {}), **given.get("problem", {}), **given.get("run", {})}
    how["task"] = task_of(how["loss"]) if "loss" in how else None
    with terminable():
        folder = shard(file, tasks, out, seed=seed, say=screen.say, **how)
    if placement is not None:
        folder.place(placement)
    screen.result(_facts(folder), _described(folder))


def _left_out(given: Mapping[str, object], when: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise invalid(name, f"must be left out {when}", value)


def _check(path: str, others: Mapping[str, object], screen: Screen) -> None:
    from erasurehead.datasets._sharded import ShardFolder

    _left_out(others, "with --check")
    folder = ShardFolder.open(path)
    complaints = folder.check()
    count = len(folder.manifest.files)
    lines = [*complaints, f"{folder.path}: {count - len(complaints)} of {count} files are intact"]
    screen.result({**_facts(folder), "damaged": complaints}, "\n".join(lines))
    if complaints:
        raise typer.Exit(1)


def _facts(folder: ShardFolder) -> PlainData:
    manifest = folder.manifest
    return {
        "folder": str(folder.path),
        "name": manifest.name,
        "task": manifest.task,
        "loss": manifest.loss or manifest.task,
        "tasks": manifest.n_tasks,
        "train_rows": manifest.n_train,
        "test_rows": manifest.n_test,
        "columns": manifest.columns,
        "form": manifest.form,
        "bytes": sum(file.bytes for file in manifest.files),
        "fingerprint": manifest.fingerprint,
        "notes": list(manifest.notes),
        "placement": folder.placement,
    }


def _described(folder: ShardFolder) -> str:
    from erasurehead.datasets._sharded.placement import described

    manifest, placement = folder.manifest, folder.placement
    rows = spanned("row", [file.rows for file in manifest.tasks])
    size = sum(file.bytes for file in manifest.files)
    shown = f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
    return "\n".join(
        [
            f"{manifest.name}: {manifest.loss or manifest.task}, {manifest.n_train:,} x {manifest.columns:,} for "
            f"training, {counted('row', manifest.n_test)} for testing ({manifest.origin.file})",
            *(f"  {note}" for note in manifest.notes),
            f"{counted('shard', manifest.n_tasks)} of {rows}, {manifest.form}, {shown} in {folder.path}",
            *([] if placement is None else [described(placement)]),
        ]
    )

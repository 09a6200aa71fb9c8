"""Whether two trees do the same: `python tests/pins.py BEFORE AFTER`, with the folders of two checkouts.

Both run side by side on one machine, as bits differ between processors: virtual runs of each scheme, resumed half-way;
peers of each policy, one of whom comes back; what run files are resolved to, and what folders hold; help and JSON of
the commands; and what is read of data files. Everything goes through the command line and the names of
`erasurehead.datasets`, so that all that is behind them may change. Prints what differs; exits with 1 if anything does.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DELAYS = "exponential(mean=0.5, seed=3)"
SCHEMES = {
    "uncoded": "nesterov",
    "ignore_stragglers(wait_for=4)": "nesterov",
    "exact(load=2)": "gradient_descent",
    "exact(load=3, code='cyclic')": "nesterov",
    "erasurehead(load=3, wait_for=3)": "heavy_ball",
    "piag(wait_for=2)": "gradient_descent",
    "asynchronous": "gradient_descent",
    "ringmaster(threshold=5)": "gradient_descent",
    "ringleader": "gradient_descent",
    "asynchronous(rescaled=True)": "gradient_descent",
    "nested(load=3)": "nesterov",
    "rennala(batch=4)": "gradient_descent",
    "rennala(batch=7, messages=3)": "gradient_descent",
    "adaptive": "quasi_newton",
    "adaptive(load=2)": "quasi_newton",
}
LATE = ("preempt", "carry", "drop(2)")
POLICIES = ("full", "static(2)", "dynamic", "local")
COMMANDS = (
    "train",
    "resize",
    "compare",
    "consensus",
    "data",
    "shard",
    "predict",
    "evaluate",
    "coefficients",
    "plan",
    "drill",
    "drill lives",
    "drill peers",
    "reproduce",
    "decompile",
    "codes list",
    "codes show",
    "codes compare",
    "config schema",
    "config keys",
    "delays fit",
    "delays show",
)
JSON = (
    ("codes", "list", "--json"),
    ("codes", "show", "fractional_repetition(12, load=3)", "--json"),
    ("codes", "compare", "cyclic_mds(9, stragglers=2)", "uncoded(9)", "--stragglers", "1-3", "--json"),
    ("config", "schema"),
    ("config", "keys", "--json"),
    ("delays", "show", "pareto(0.1, 1.5)", "--json"),
    ("delays", "fit", "trace.csv", "--no-figures", "--json"),
    ("data", "table.csv", "--categorical", "--json"),
)
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}


def digest(data: bytes) -> str:
    """Return a short digest of bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def typed(*words: str) -> tuple[int, str]:
    """Run the command line in this process; return its exit code, and what it printed without times and paths."""
    from erasurehead.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["erasurehead", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    printed = re.sub(r'("\w*(?:seconds|products)\w*": )[\d.e-]+', r"\1N", out.getvalue())  # measured on the way
    return code, (printed + ("" if code == 0 else err.getvalue())).replace(os.getcwd(), "FOLDER")


def rows(path: Path) -> str:
    """Return the digest of a file of JSON lines."""
    return digest(path.read_bytes()) if path.is_file() else "none"


def run_of(folder: Path) -> dict[str, str]:
    """Return what a run has left: digests of its model and rows, its resolved run file, and the names of its files."""
    # Checkpoints are written beside the steps: how many there are in the end is a matter of time.
    kept = sorted({re.sub(r"\d+", "N", str(path.relative_to(folder))) for path in folder.rglob("*") if path.is_file()})
    resolved = re.sub(r"/\S+/", "", (folder / "config.toml").read_text()) if (folder / "config.toml").is_file() else ""
    return {
        "model": digest((folder / "model.safetensors").read_bytes()) if "model.safetensors" in kept else "none",
        **{name: rows(folder / f"{name}.jsonl") for name in ("steps", "arrivals", "evaluations", "means", "peers")},
        "resolved": resolved,
        "files": " ".join(kept),
    }


def write_tables() -> None:
    """Write the data that everything is pinned on."""
    draw = random.Random(0)
    lines = [
        (f"{draw.gauss(0, 1):.4f}", draw.choice("abc"), str(draw.randrange(5)), str(draw.randrange(2)))
        for _ in range(240)
    ]
    for name, mark in SEPARATORS.items():
        Path(f"{name}.csv").write_text(f"x{mark}kind{mark}n{mark}y\n" + "".join(mark.join(row) + "\n" for row in lines))
    Path("table.csv").write_text(Path("comma.csv").read_text())
    Path("holes.csv").write_text(
        "x,kind,y\n"
        + "".join(f"{x if k % 7 else ''},{c if k % 5 else ''},{y}\n" for k, (x, c, _, y) in enumerate(lines))
    )
    Path("price.csv").write_text(
        "x,n,price\n" + "".join(f"{x},{n},{float(x) * 3 + int(n):.3f}\n" for x, _, n, _ in lines)
    )
    Path("rows.svm").write_text("".join(f"{'+1' if y == '1' else '-1'} 1:{x} {2 + int(n)}:1\n" for x, _, n, y in lines))
    Path("faults.toml").write_text('[[fault]]\nkind = "kill"\nat = 2.0\nworker = 2\nlasting = 3.0\n')
    Path("trace.csv").write_text(
        "worker,step,seconds\n" + "".join(f"{k % 8},{k // 8},{draw.expovariate(2):.4f}\n" for k in range(400))
    )


def pinned_runs() -> Iterator[tuple[str, Any]]:
    """Yield virtual runs of each scheme, whole and resumed half-way."""
    for scheme, optimizer in SCHEMES.items():
        for late in LATE:
            name = f"run {scheme} {late}"
            rate = () if optimizer == "quasi_newton" else ("--rate", "0.5")
            words = (
                "train",
                "--data",
                "table.csv",
                "--label",
                "y",
                "--categorical",
                "--engine",
                "virtual",
                "-w",
                "12",
                "--delays",
                DELAYS,
                "--late",
                late,
                "--scheme",
                scheme,
                "--optimizer",
                optimizer,
                *rate,
                "--checkpoint-every",
                "4",
                "-q",
                "--overwrite",
            )
            code, said = typed(*words, "--steps", "12", "--out", "whole")
            whole = run_of(Path("whole")) if code == 0 else {}
            yield name, {"code": code, "said": "" if code == 0 else said, **whole}
            if code == 0:
                typed(*words, "--steps", "6", "--out", "part")
                typed("train", "--resume", "part", "--steps", "12", "-q")
                part = run_of(Path("part"))
                yield f"{name}, resumed", {key: part[key] for key in ("model", "steps", "arrivals")}


def pinned_peers() -> Iterator[tuple[str, Any]]:
    """Yield runs without a coordinator, in which a peer crashes and comes back."""
    for policy in POLICIES:
        words = (
            "consensus",
            "--data",
            "table.csv",
            "--label",
            "y",
            "--categorical",
            "--peers",
            "6",
            "--policy",
            policy,
            "--delays",
            DELAYS,
            "--steps",
            "20",
            "--faults",
            "faults.toml",
            "--no-against-full",
            "--no-pictures",
            "--out",
            "peers",
            "--overwrite",
            "-q",
        )
        code, said = typed(*words)
        yield f"peers {policy}", {"code": code, "said": said, **(run_of(Path("peers")) if code == 0 else {})}


def pinned_commands() -> Iterator[tuple[str, Any]]:
    """Yield help and JSON of the commands."""
    for command in COMMANDS:
        yield f"help {command}", typed(*command.split(), "--help")
    for words in JSON:
        yield " ".join(words), typed(*words)


def pinned_data() -> Iterator[tuple[str, Any]]:
    """Yield what is read of files, to the bit, with its sentences."""
    import numpy as np

    from erasurehead import datasets

    files = [*(f"{name}.csv" for name in SEPARATORS), "holes.csv", "price.csv", "rows.svm"]
    for file in files:
        for categorical in (False, True) if file.endswith(".csv") else (False,):
            options = {"categorical": True} if categorical else {}
            try:
                found = datasets.read(
                    file, None if file == "rows.svm" else "price" if file == "price.csv" else "y", **options
                )
            except Exception as error:
                yield f"data {file} {categorical}", f"{type(error).__name__}: {error}"
                continue
            X: Any = found.X_train
            dense = np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X)
            yield (
                f"data {file} {categorical}",
                {
                    "X": digest(dense.tobytes()),
                    "y": digest(np.ascontiguousarray(found.y_train).tobytes()),
                    "notes": list(found.notes),
                    "task": found.task,
                    "columns": found.n_columns,
                },
            )


def record() -> dict[str, Any]:
    """Return everything that is pinned, by name, of the tree that is on the path."""
    os.environ.update(COLUMNS="100", TERM="dumb", NO_COLOR="1")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_tables()
        return dict(one for part in (pinned_data, pinned_commands, pinned_peers, pinned_runs) for one in part())


def recorded(tree: Path) -> subprocess.Popen[str]:
    """Start the recording of a tree."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree / "src")}
    return subprocess.Popen(
        [sys.executable, __file__, "--record"], env=os.environ | threads, stdout=subprocess.PIPE, text=True, cwd=tree
    )


def renamed(value: Any, old: re.Pattern[str], new: str) -> Any:
    """Return what was recorded with another word for a key."""
    if isinstance(value, dict):
        return {key: renamed(one, old, new) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, old, new) for one in value]
    return old.sub(new, value) if isinstance(value, str) else value


def main() -> int:
    """Compare two trees, or print what is pinned of this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--record", action="store_true", help="print what is pinned of the tree on the path, as JSON")
    parser.add_argument(
        "--renamed", action="append", default=[], metavar="OLD=NEW", help="a key that is meant to have another name now"
    )
    given = parser.parse_args()
    if given.record:
        print(json.dumps(record()))
        return 0
    if len(given.trees) != 2:
        parser.error("two trees: BEFORE AFTER")
    before, after = (
        json.loads(process.communicate()[0]) for process in [recorded(tree.resolve()) for tree in given.trees]
    )
    for old, new in (word.split("=") for word in given.renamed):
        before = renamed(before, re.compile(rf'(?<=[\n".]){re.escape(old)}(?= = |")'), new)
    differing = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    for name in sorted(differing):
        one, other = before.get(name), after.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            parts = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
            one, other = ({key: side.get(key) for key in parts} for side in (one, other))
        print(f"{name}:\n  before {one}\n  after  {other}")
    print(f"{len(before)} pins, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

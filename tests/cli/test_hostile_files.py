"""Files that somebody has made to break whoever reads them: every command that reads them answers with a sentence."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from ..bounded import in_time
from ..sealing import seal
from ..typed import typed
from .shop import SMALL, Typed, write_shop

N = 100_000
DEEP, LONG = "[" * N + "]" * N, "9" * N
CHAIN = "|".join(["decodable()"] * 600)
RUN = '[data]\nsource = "shop.csv"\ncategorical = true\n[run]\nengine = "virtual"\nworkers = 4\nsteps = 3\n'

TOML = {
    "deep": f"a = {DEEP}",
    "inline": "a = " + "{a=" * N + "1" + "}" * N,
    "digits": f"[run]\nsteps = {LONG}",
    "hexadecimal": f"[run]\nsteps = 0x{LONG}",
    "dotted": ".".join(["a"] * N) + " = 1",
    "dotted value": f'scheme = "exact(load=2)"\n[data]\nsource = """\n{".".join(["a"] * 60)}\n"""\n[run]\nstep = 1\n',
    "spaces": f'scheme = """\n[{" " * N}x\n{" " * N}x"""\n[run]\nstep = 1\n',
    "minus": f'scheme = "exact(load={"-" * 2000}2)"\n{RUN}',
    "calls": f'scheme = "{"exact(" * 3000}"\n{RUN}',
    "attributes": f'scheme = "a{".a" * 5000}"\n{RUN}',
    "not": f'scheme = "{"not " * 5000}a"\n{RUN}',
    "huge": f'scheme = "exact(load=0x{LONG})"\n{RUN}',
    "chain": f"""scheme = "custom(code='cyclic_mds(stragglers=2)', wait='{CHAIN}')"\n{RUN}""",
    "delays": f'{RUN}[delays]\nmodel = "{"+".join(["exponential(1)"] * 600)}"\n',
    "too many": f"{RUN}seed = 99999999999999999999999\n[optimizer]\nrate = '{'(' * 500}'\n",
    "long": f"# {'x' * (5 << 20)}\n{RUN}",
    "seed": f"{RUN}[problem]\nl2 = 1.0\n[data.x]\nseed = 1\n",
}
ROWS = {
    "deep": f'{{"step":{DEEP}}}\n',
    "digits": f'{{"step":{LONG},"worker":0,"seconds":1.0}}\n',
    "nan": "NaN\n",
    "infinite": '{"step":1,"worker":0,"seconds":1e999}\n',
    "surrogate": '{"worker":"\\ud800"}\n',
}


def answered(*words: object) -> str:
    """Run a command that is to refuse something, and return its sentence."""
    with in_time():
        done = typed(*words)
    assert "Traceback" not in done.err
    assert done.code == 2, (words, done.code, done.out, done.err)
    assert done.sentence.startswith("erasurehead: "), done.err
    return done.sentence


@pytest.mark.parametrize("name", TOML)
def test_run_files_and_schedules(typed: Typed, shop: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "r.toml").write_text(TOML[name])
    for command in (("train",), ("compare",), ("consensus",), ("drill", "--schedule")):
        answered(*command, "r.toml")


@pytest.mark.parametrize("name", ROWS)
def test_records_and_traces(typed: Typed, shop: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "t.jsonl").write_text(ROWS[name])
    for words in (
        ("delays", "show", "t.jsonl"),
        ("delays", "fit", "t.jsonl"),
        ("plan", "--trace", "t.jsonl", "-w", 4),
        ("train", "--data", "shop.csv", *SMALL[:-1], "recorded('t.jsonl')"),
        ("train", "--data", "shop.csv", *SMALL[:-1], "bootstrap('t.jsonl')"),
    ):
        answered(*words)


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, f"a({'-' * 5000}1)", f"cyclic_mds({'[' * 90}", f"cyclic_mds(0x{LONG})", "a()" + "()" * 5000],
    ids=range(5),
)
def test_texts_of_codes_schemes_and_delays(typed: Typed, shop: Path, text: str) -> None:
    for words in (
        ("codes", "show", text),
        ("delays", "show", text),
        ("train", "--data", "shop.csv", "--scheme", text, *SMALL),
        ("consensus", "--graph", text, "--peers", 4),
        ("consensus", "--policy", text, "--peers", 4),
    ):
        answered(*words)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_shop(folder / "shop.csv")
    here = Path.cwd()
    os.chdir(folder)
    try:
        assert typed("train", "--data", "shop.csv", *SMALL, "--out", "run").code == 0
    finally:
        os.chdir(here)
    return folder


def reseal(run: Path, name: str, data: bytes) -> None:
    """Write a file of a run with the checksum that the run would have written."""
    (run / name).write_bytes(data)
    if name in (run / "checksums.json").read_text():
        seal(run, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["summary.json", "encoding.json", "config.toml", "steps.jsonl", "arrivals.jsonl", "checksums.json"]
)
@pytest.mark.parametrize("what", [DEEP, '{"a":"\\ud800"}', "[]", "{}"], ids=["deep", "surrogate", "list", "empty"])
def test_files_of_a_run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    if name == "checksums.json":
        Path("run", name).write_text(what)
    else:
        reseal(Path("run"), name, f"{what}\n".encode())
    for words in (
        ("predict", "run", "shop.csv"),
        ("train", "--resume", "run", "-n", 14),
        ("compare", "run", "run", "--no-figures"),
        ("delays", "show", "run/arrivals.jsonl"),
    ):
        with in_time():
            done = typed(*words)
        assert done.code in (0, 2), (words, done.err)
        assert "Traceback" not in done.err


def test_headers_of_arrays(typed: Typed, tmp_path: Path) -> None:
    for header in (
        "(" * 9000,
        "-" * 9000 + "1",
        f"{{'descr':'<f8','fortran_order':False,'shape':({10**15},)}}",
        "{'descr':'|O','fortran_order':False,'shape':(1,)}",
    ):
        text = header.encode() + b"\n"
        (tmp_path / "X.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
        np.save(tmp_path / "y.npy", np.ones(3))
        answered("train", "--data", "X.npy", "--label", "y.npy", *SMALL)

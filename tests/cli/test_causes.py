"""Bad input by cause: formats, numbers, names, paths, streams, sizes. Each case is a sentence and exit code 2."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes
from erasurehead.errors import InvalidArgument

from ..bounded import PATIENCE
from ..typed import other
from .shop import SMALL, Typed

SHOP = ("--data", "shop.csv", *SMALL)
HEAD = "worker,step,seconds\n"


def refused(typed: Typed, *arguments: object) -> str:
    """Run a command that must be refused with one sentence, and leave nothing; return the sentence."""
    before = {path for path in Path().rglob("*") if ".npy" not in path.name}
    done = typed(*arguments)
    assert done.code == 2, (done.out, done.err)
    assert done.sentence.startswith("erasurehead: "), done.err
    assert done.sentence.endswith("."), done.sentence
    assert "Traceback" not in done.err
    assert {path for path in Path().rglob("*") if ".npy" not in path.name} == before
    return done.sentence


def _workbook() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return made.getvalue()


def _archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("shop.csv", "a,b\n1,2\n")
    return made.getvalue()


def _header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _sparse(place: str, index: int) -> bytes:
    matrix: Any = sparse.csr_array(np.eye(8))
    getattr(matrix, place)[3] = index
    made = io.BytesIO()
    sparse.save_npz(made, matrix)
    return made.getvalue()


PACKED = "is an archive, or packed in a way that is not read here; unpack it"
OTHER = "is a file of another kind that is not read here; write its table as CSV or Parquet"

FORMATS: list[tuple[str, bytes, str]] = [
    ("t.xlsx", _workbook(), OTHER),
    ("t.csv", _workbook(), OTHER),
    ("t.zip", _archive(), PACKED),
    ("t.json", b'[{"a": 1}]\n', OTHER),
    ("t.html", b"<table></table>\n", OTHER),
    ("t.dat7", b"hello\nworld\n", "its ending '.dat7' does not say what it is"),
    ("t.xz", b"\xfd7zXZ\x00", PACKED),
    ("t.pkl", b"\x80\x04K\x01.", OTHER),
    ("t.csv", "a,b\n1,2\n".encode("utf-16"), "it is in UTF-16: save it as UTF-8"),
    ("t.csv", "a,b\n1,2\n".encode("utf-16-le"), "it is in UTF-16: save it as UTF-8"),
    ("t.csv", b"a,b\nM\xfcller,2\n", "line 2: not UTF-8 text (byte 0xfc); save it as UTF-8"),
    ("t.csv", b"a,b\n\x00\x00\x01,2\n" + b"1,2\n" * 9, "is not a text"),
    ("t.csv.gz", b"a,b\n1,2\n", "is not compressed, although its name ends in .gz"),
    ("t.csv.gz", gzip.compress(b"a,b\n" + os.urandom(3000))[:900], "the file is cut off or damaged"),
    ("t.csv", b'a,b\n1,2\n"3,4\n5,6\n7,8\n', "line 3: a quote that opens here is never closed"),
    ("t.csv", b'a,b\n"x\ny",1\n1,"3\n5,6\n', "line 4: a quote that opens here is never closed"),
    ("t.csv", b"a,b\n1,1\n1,2\n1,1\n1,2\n1,1\n1,2\n", "every column but the label has one value"),
    ("t.csv", b"a,id\n" + b"".join(b"%d,n%d\n" % (k % 3, k) for k in range(60)), "almost one a row, as identifiers do"),
    ("t.csv", b"a,y\n1,1.5\n2,nan\n3,2.5\n", "leave that row out, or fill it in"),
    ("t.npy", _header("(1000000000000, 20)"), "is not a matrix of numbers saved by scipy or numpy"),
    ("t.npy", _header("(4,)") + bytes(32), "must be a matrix with two dimensions"),
    ("t.npz", _sparse("indices", 99), "invalid sparse matrix: entry 3 is in column 99, but columns go from 0 to 7"),
    ("t.npz", _sparse("indices", -1), "invalid sparse matrix: entry 3 is in column -1"),
    ("t.npz", _sparse("indptr", 99), "invalid sparse matrix"),
    ("t.npz", b"PK\x03\x04" + bytes(50), "is not a matrix of numbers"),
    ("t.svm", b"1 1:2\n-1 2000000000:1\n", "asks for, needs about"),
    ("t.svm", b"1 -1:2\n", "is not a whole number from 0 to 2,147,483,646"),
    ("t.parquet", b"nothing", "is not a Parquet file"),
    ("empty", b"", "is empty"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "content", "said"), FORMATS)
def test_formats(typed: Typed, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, said: str) -> None:
    monkeypatch.setenv("ERASUREHEAD_MEMORY", "8e9")
    Path(name).write_bytes(content)
    sentence = refused(typed, "train", "--data", name, "-w", 2, "--engine", "virtual")
    assert name in sentence
    assert said in sentence


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_files_are_known_by_how_they_begin(typed: Typed, shop: Path, pack: Any) -> None:
    Path("packed.csv").write_bytes(pack(shop.read_bytes()))
    assert typed("train", "--data", "packed.csv", *SMALL).code == 0


TRACES: list[tuple[str, str]] = [
    (HEAD + "0,2.5,1\n", "line 2: step must be a whole number, but it is '2.5'"),
    (HEAD + "-1,0,1\n", "line 2: worker must be a name, or a whole number of at least 0, but it is '-1'"),
    (HEAD + "0,-1,1\n", "line 2: step must be a finite number of at least 0"),
    (HEAD + "0,0,nan\n", "line 2: seconds must be a finite number"),
    (HEAD + "0,0,inf\n", "line 2: seconds must be a finite number"),
    (HEAD + "0,0,-1\n", "line 2: seconds must be a finite number of at least 0"),
    (HEAD + "0,0,ten\n", "line 2: seconds must be a number, but it is 'ten'"),
    ("worker,step,seconds,load\n0,0,1,0\n", "line 2: load must be above 0, but it is 0"),
    ("worker,step,seconds,censored\n0,0,1,maybe\n", "line 2: censored must be 0 or 1"),
]


@pytest.mark.parametrize(("text", "said"), TRACES)
def test_traces(typed: Typed, text: str, said: str) -> None:
    Path("t.csv").write_text(text)
    assert said in refused(typed, "delays", "show", "t.csv")


@pytest.mark.parametrize(
    "line",
    [
        "3",
        "[]",
        "{",
        '{"unit": 0, "step": 0, "worker": 0, "seconds": "x"}',
        '{"unit": 0, "step": -1, "worker": 0}',
        '{"unit": 0, "step": 0.5, "worker": 0, "seconds": 1}',
        '{"unit": 0, "step": 0, "worker": 0, "seconds": null}',
    ],
)
def test_recorded_arrivals(typed: Typed, line: str) -> None:
    Path("arrivals.jsonl").write_text(f"{line}\n")
    assert "arrivals.jsonl" in refused(typed, "delays", "show", "arrivals.jsonl")
    assert "line 1" in refused(typed, "delays", "show", "recorded('arrivals.jsonl')")


NUMBERS: list[tuple[tuple[object, ...], str]] = [
    (("train", "--steps", "ten"), "--steps must be a whole number, but it is 'ten'"),
    (("train", "--steps=ten"), "--steps must be a whole number, but it is 'ten'"),
    (("train", "-n", "1.5"), "--steps must be a whole number, but it is '1.5'"),
    (("train", "--l2", "a"), "--l2 must be a number or 'tuned', but it is 'a'"),
    (("train", "--synthetic", "always", "--l2", "inf"), "--l2 must be a finite number or 'tuned', but it is inf"),
    (("train", "--synthetic", "always", "--l2", "-1"), "--l2 must be at least 0 or 'tuned', but it is '-1'"),
    (("train", "--synthetic", "always", "--rate", "nan"), "--rate must be a positive finite number, but it is"),
    (("train", "--synthetic", "always", "--rate", "-1"), "--rate must be a positive finite number, but it is"),
    (("resize", "x", "many"), "WORKERS must be a whole number, but it is 'many'"),
    (("delays", "show", "exponential(1)", "-w", "0"), "--workers must"),
    (("delays", "show", "exponential(nan)"), "mean must be finite and greater than 0, but it is"),
    (("delays", "show", "exponential('a')"), "mean must be finite and greater than 0, but it is 'a'"),
    (("delays", "show", "exponential(1)", "-w", 10**7), "needs about 1,000.0 GB of memory"),
    (("delays", "show", "fixed([[1, 'a']])"), "table must have rows of numbers"),
    (("delays", "show", "late([9])", "-w", 5), "workers must be among the 5 workers, from 0 to 4, but it is 9"),
    (("train", *SHOP[:-1], "late([9])"), "workers must be among the 6 workers"),
    (("train", *SHOP[:-1], "late([1]) + late([7], by=1)"), "workers must be among the 6 workers"),
    (("compare", *SHOP, "--target", "auc=2"), "--target must be a value that auc can have, from 0 to 1"),
    (("compare", *SHOP, "--target", "mse=-1"), "--target must be a value that mse can have, of at least 0"),
    (("compare", *SHOP, "--target", "auc=inf"), "--target must be a value that auc can have"),
    (("codes", "compare", "uncoded(5)", "uncoded(6)", "--samples", 0), "--samples must be at least 1"),
    (("codes", "compare", "uncoded(5)", "uncoded(6)", "--effort", 0), "--effort must be at least 1"),
    (("codes", "compare", "uncoded(5)", "uncoded(6)", "--seed", -1), "--seed must be at least 0"),
    (("codes", "compare", "uncoded(5)", "--stragglers", 99, "--out", "new"), "--stragglers must be at most"),
    (("plan", "--delays", "none()", "-w", 6, "--max-load", 2, "--out", "new"), "--delays must take some time"),
    (("plan", "--delays", "late([0])", "-w", 6, "--max-load", 2, "--out", "new"), "--delays must take some time"),
    (
        (
            "plan",
            "--delays",
            "exponential(1)",
            "-w",
            6,
            "--max-load",
            2,
            "--out",
            "new",
            "--target",
            "error=5",
            "--constants",
            "mu=0.1,beta=1,sigma=1,gap=1",
        ),
        "--target must be greater than 0 and below the first model's error, 1, but it is 5.0",
    ),
    (("drill", "--workers", 1), "--workers must be at least 3"),
    (("codes", "show", "cyclic_mds(1000000, stragglers=5)"), "stragglers must be few enough for float64"),
    (
        ("codes", "show", "cyclic_repetition(1000000, stragglers=5)"),
        "n_workers must be at most 100000, but it is 1000000",
    ),
    (("codes", "show", "draco_cyclic(1000000, corrupted=2)"), "corrupted must be few enough for float64"),
    (("codes", "show", "uncoded(50000)"), "The analysis of uncoded of 50,000 workers would take about"),
    (("codes", "show", "design_for(100000, 99999)"), "needs about"),
    (("plan", "--delays", "exponential(0.1)", "-w", 1000000), "A plan of 54 settings for 1,000,000 workers would take"),
    (("train", *other(SHOP, "--workers", 10000000)), "A run of 10,000,000 workers needs about"),
    (("consensus", "--data", "shop.csv", "--peers", 10000000), "A run of 10,000,000 peers needs about"),
    (("compare", *other(SHOP, "--workers", 10000000)), "A run of 10,000,000 workers needs about"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("command", "said"), NUMBERS)
def test_numbers(typed: Typed, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...], said: str) -> None:
    monkeypatch.setenv("ERASUREHEAD_MEMORY", "8e9")
    monkeypatch.setenv("ERASUREHEAD_SECONDS", "5")
    assert said in refused(typed, *command)


EMPTY: list[tuple[object, ...]] = [
    ("train", "--scheme", ""),
    ("train", "--data", ""),
    ("train", "--delays", " "),
    ("train", "--out", ""),
    ("compare", "-s", ""),
    ("plan", "--delays", "exponential(1)", "-w", 6, "--current", ""),
    ("drill", "--scheme", ""),
    ("codes", "compare", "uncoded(5)", "--out", ""),
    ("data", "shop.csv", "--label", ""),
]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", EMPTY)
def test_an_empty_text_is_not_the_default(typed: Typed, command: tuple[object, ...]) -> None:
    assert "must not be empty" in refused(typed, *command)


NAMES: list[tuple[tuple[object, ...], str]] = [
    (("train", *SHOP, "--scheme", "magic"), "--scheme must use known names, got 'magic'; "),
    (("train", *SHOP[:-1], "exponential"), "must be written as a call, exponential(mean, seed=0"),
    (("train", *SHOP, "--one-hot", "age,city"), "got 'city' (in 'age,city'); they are age, town"),
    (("delays", "show", "exponential"), "must be written as a call, exponential(mean, seed=0"),
    (("delays", "show", "bootstrap('nowhere.csv')"), "There is no file 'nowhere.csv'"),
    (("delays", "show", "nowhere.csv"), "There is no file 'nowhere.csv'"),
    (("codes", "show", "magic"), "CODE must be a code of the catalogue"),
    (("compare", *SHOP, "--target", "speed=3"), "--target must name a metric that is measured"),
]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("command", "said"), NAMES)
def test_names(typed: Typed, command: tuple[object, ...], said: str) -> None:
    assert said in refused(typed, *command)


RUN_FILES: list[tuple[str, str]] = [
    ("[run]\nsteps = 'ten'\n", "run.toml, line 2: run.steps must be a whole number, but it is 'ten'"),
    ("# x\n\n[run]\nstep = 3\n", "run.toml, line 4: There is no key 'step' in [run]"),
    ("data = 'a.csv'\n", "run.toml, line 1: data must be a section of keys, but it is 'a.csv'"),
    ("run = 3\n", "run.toml, line 1: run must be a section of keys, but it is 3"),
    ("run = [1]\n", "run.toml, line 1: run must be a section of keys, but it is [1]"),
    ("scheme = ''\n", "run.toml, line 1: scheme must not be empty"),
    ("[run]\nworkers = 6\n[data]\nsource = 'a'\ntarget = ''\n", "run.toml, line 5: data.target must not be empty"),
    (
        "[data]\nsource = 'shop.csv'\none_hot = ['age', 'city']\n",
        'run.toml, line 3: data.one_hot must name columns of shop.csv, got \'city\' (in ["age", "city"])',
    ),
    ("[delays]\nmodel = '''\nlate([99])'''\n[data]\nsource = 'shop.csv'\n", "run.toml, line 2: delays.model"),
    ("scheme = 'magic'\n", "run.toml, line 1: scheme must use known names, got 'magic'"),
]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("text", "said"), RUN_FILES)
def test_run_files_are_named_with_the_line(typed: Typed, text: str, said: str) -> None:
    Path("run.toml").write_text(text)
    assert said in refused(typed, "train", "run.toml", "--engine", "virtual")


PLACES = ["nowhere.csv", ".", "pipe", "/dev/zero", "/dev/null", "nowhere/x.csv", "shop.csv/x", "x" * 300, "a\0b"]


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", [("train", "--data"), ("delays", "show"), ("train",)])
def test_paths(typed: Typed, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], place: str) -> None:
    monkeypatch.setenv("ERASUREHEAD_PIPE_SECONDS", "0.1")
    os.mkfifo("pipe")
    refused(typed, *command, place)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_file_that_may_not_be_read(typed: Typed, shop: Path) -> None:
    shop.chmod(0)
    assert "may not be read by this user" in refused(typed, "train", "--data", "shop.csv")


def test_a_used_folder_is_refused_before_the_data_are_read(typed: Typed, shop: Path) -> None:
    Path("used").mkdir()
    Path("used/thesis.tex").write_text("")
    for command in ("train", "compare", "drill"):
        data = () if command == "drill" else ("--engine", "virtual")
        done = typed(command, "--data", shop, *data, "--out", "used")
        assert done.code == 2
        assert "used" in done.sentence
    shop.unlink()  # had the data been looked for, their absence would be told
    for command in ("train", "compare", "drill"):
        assert "There is no file" not in typed(command, "--data", shop, "--out", "used").err
    assert [path.name for path in Path("used").iterdir()] == ["thesis.tex"]


def test_a_damaged_encoding_is_named_by_its_key(typed: Typed) -> None:
    rng = np.random.default_rng(0)
    Path("t.csv").write_text(
        "a,town,y\n" + "".join(f"{a:.3f},{'AB'[k % 2]},{k % 2}\n" for k, a in enumerate(rng.normal(size=40)))
    )
    assert typed("train", "--data", "t.csv", *SMALL, "--out", "run").code == 0
    kept = Path("run/encoding.json").read_text()
    damaged: list[tuple[list[Any], Any]] = [
        (["features", 0, "mean"], "x"),
        (["features", 0, "scale"], 0),
        (["features", 1, "one_hot"], "town"),
        (["constant"], "yes"),
        (["columns"], 3),
        (["target", "unit"], None),
        (["target", "classes"], [1]),
        (["vocabularies", "town"], {"texts": [1]}),
        (["vocabularies"], {}),
        (["features"], {}),
        (["target", "task"], "x"),
    ]
    for keys, value in damaged:
        data = json.loads(kept)
        inner = data
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        Path("run/encoding.json").write_text(json.dumps(data))
        done = typed("predict", "run", "t.csv")
        assert done.code == 2, (keys, done.err)
        assert done.sentence.endswith(".")


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("stream", ["<&- >&- 2>&-", "2>&1 | head -c 1 >/dev/null"])
def test_streams_of_a_new_interpreter(shop: Path, stream: str) -> None:
    """Those of each command are in `test_streams.py`."""
    words = ["train", "--data", "shop.csv", *map(str, other(SMALL, "--steps", 3)), "--out", "run"]
    quoted = " ".join(f"'{word}'" for word in words)
    line = f"{sys.executable} -c 'from erasurehead.cli import main; main()' {quoted} {stream}"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=shop.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment,
    )
    assert "Traceback" not in done.stderr
    assert json.loads((shop.parent / "run/summary.json").read_text())["status"] == "finished"
    assert done.returncode == 0


@pytest.mark.processes
@pytest.mark.slow
def test_a_name_that_is_not_utf8_is_refused_before_the_work(shop: Path) -> None:
    name = os.fsdecode(b"sh\xffop.csv")
    (shop.parent / name).write_bytes(shop.read_bytes())
    command = [sys.executable, "-c", "from erasurehead.cli import main; main()", "train", "--data", name]
    done = subprocess.run(command, cwd=shop.parent, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "must be UTF-8 text" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_has_its_facts_as_fields() -> None:
    error = InvalidArgument("load", "must be at most 5", 7, "take 5").inside("scheme", "exact(load=7)")
    assert (error.subject, error.argument, error.rule, error.value, error.hint) == (
        "scheme",
        "load",
        "must be at most 5",
        7,
        "take 5",
    )
    assert str(error) == "scheme 'exact(load=7)': load must be at most 5, but it is 7; take 5."
    assert str(error.about("--scheme").but(place="run.toml, line 3")).startswith("run.toml, line 3: --scheme 'exact")


def test_an_error_that_is_a_sentence_of_its_own_has_its_facts_as_fields() -> None:
    error = pickle.loads(pickle.dumps(_refusal()))
    assert (error.argument, error.rule, error.value) == ("stragglers", "must be given, or load, and not both", 3)
    assert str(error) == (
        "Give either stragglers or load (load = stragglers + 1), exactly one of them; they came as stragglers=3 and "
        "load=4."
    )
    within = error.inside("code", "cyclic_mds(12, 3, 4)").but(place="run.toml, line 3")
    assert str(within) == f"run.toml, line 3: code 'cyclic_mds(12, 3, 4)': {error}"


def _refusal() -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        codes.build("cyclic_mds", n_workers=12, stragglers=3, load=4)
    return caught.value

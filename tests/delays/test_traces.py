"""Traces: read from files of others and our own, written, drawn from; and what is wrong with one is said."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import delays
from erasurehead.delays import Trace, _bootstrap, _distributions, _summaries
from erasurehead.errors import DataError, InvalidArgument

THEIRS = {"step": "round", "seconds": "latency_s"}


def small() -> Trace:
    rng = np.random.default_rng(0)
    return Trace.from_table(rng.exponential(size=(40, 6)), "small")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.parquet"])
def test_what_is_written_is_read_back_to_the_bit(tmp_path: Path, name: str) -> None:
    trace = small()
    trace.censored[3] = True
    trace.write(tmp_path / name)
    again = Trace.read(tmp_path / name)
    for field in ("step", "worker", "seconds", "load", "censored"):
        assert (getattr(again, field) == getattr(trace, field)).all()
    assert again.names == trace.names


@pytest.mark.slow
def test_the_aws_traces_are_read_by_mapping_their_columns(data_folder: Path) -> None:
    path = data_folder / "traces" / "aws_lambda" / "sam-gc-cnn_profile_est_desktop_long.csv.gz"
    trace = Trace.read(path, THEIRS, where={"region": "Canada", "load": 0.5})
    assert (trace.n_steps, trace.n_workers, len(trace.seconds)) == (30, 256, 7680)
    assert not trace.remarks()  # stalls of 26 to 38 s are stalls, not other units
    table = trace.table()
    assert not np.isnan(table).any()
    assert np.median(table) == pytest.approx(1.158, abs=0.01)
    with pytest.raises(DataError, match=r"several samples of worker .* take one \(--where"):
        Trace.read(path, THEIRS).table()


def test_workers_keep_their_names_in_natural_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("worker,step,seconds\n10,0,1\n9,0,2\n10,5,3\n9,5,4\n")
    trace = Trace.read(path)
    assert trace.names == ("9", "10")
    assert trace.table().tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_a_unit_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("worker,step,seconds\n0,0,1500\n1,0,2500\n0,1,1000\n1,1,3000\n")
    assert Trace.read(path, unit="ms").table().tolist() == [[1.5, 2.5], [1.0, 3.0]]


class TestRemarks:
    def test_mixed_units_are_warned_of(self, tmp_path: Path) -> None:
        table = np.random.default_rng(0).exponential(size=(50, 8)) + 0.5
        table[:, 5:] *= 1000.0
        path = tmp_path / "t.csv"
        Trace.from_table(table).write(path)
        with pytest.warns(UserWarning, match=r"some workers are about 1,\d\d\d times|some workers are about 9\d\d"):
            Trace.read(path)
        by_step = Trace.from_table(np.where(np.arange(50)[:, None] < 20, 1e-3, 1.0) * (table[:, :5]))
        assert any("some steps" in remark for remark in by_step.remarks())

    def test_a_heavy_tail_is_not_mistaken_for_mixed_units(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = _distributions.Pareto(0.1, 0.9, seed=0).rows(0, 200, 30)
        assert not Trace.from_table(table).remarks()

    @pytest.mark.parametrize(
        ("table", "said"),
        [
            (np.ones((1, 4)) + np.arange(4), "one step only"),
            (np.arange(4.0)[:, None] + 1.0, "one worker only"),
            (np.full((3, 3), 2.0), "all samples are 2 s"),
            (np.where(np.eye(4) > 0, np.nan, 1.0 + np.arange(16.0).reshape(4, 4)), "4 of 4 steps lack some workers"),
        ],
    )
    def test_little_data_is_said(self, table: np.ndarray, said: str) -> None:
        assert any(said in remark for remark in Trace.from_table(table).remarks())


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("worker,step,seconds\n0,0,-1\n", {}, r"line 2: seconds must be a finite number of at least 0, but it is -1"),
        ("worker,step,seconds\n0,0,1\n0,1,nan\n", {}, r"line 3: seconds must be a finite"),
        ("worker,step,seconds\n0,0,fast\n", {}, r"line 2: seconds must be a number, but it is 'fast'"),
        ("worker,step,seconds\n0,0,1_5\n", {}, r"line 2: seconds must be a number, but it is '1_5'"),
        ("worker,step,seconds\n0,0\n", {}, r"line 2: 2 fields instead of 3"),
        ("worker,step,seconds\n0,0,0,5\n", {}, r"line 2: 4 fields instead of 3; .* commas where points should be"),
        (
            "worker;step;seconds\n0;0;0,5\n",
            {},
            r"line 2: seconds must be a number, but it is '0,5'; decimals need a point",
        ),
        (
            "worker,step,seconds\n0,2026-11-27T15:00:00Z,1\n",
            {},
            r"line 2: step must be a number, but it is '2026-11-27T15:00:00Z'; number the rounds 0, 1, 2 and so on",
        ),
        ("worker,step,seconds,seconds\n0,0,1,2\n", {}, r"two columns with the name 'seconds'; rename one of them"),
        ("worker,round,latency\n0,0,1\n", {}, r"no column 'step', 'seconds'; it has worker, round, latency"),
        ("worker,step,seconds\n0,0,1\n", {"columns": {"load": "tasks"}}, "no column 'tasks'"),
        ("worker,step,seconds\n0,0,1\n", {"where": {"region": "x"}}, "no column 'region'"),
        ("worker,step,seconds,region\n0,0,1,y\n", {"where": {"region": "x"}}, "no samples where region is x"),
        ("worker,step,seconds\n", {}, "holds no samples"),
        ("worker,step,seconds,censored\n0,0,1,maybe\n", {}, "censored must be 0 or 1"),
    ],
)
def test_a_wrong_file_says_where_and_why(tmp_path: Path, text: str, options: dict[str, object], said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        Trace.read(path, **options)  # pyright: ignore


def test_wrong_arguments_and_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("worker,step,seconds\n0,0,1\n")
    with pytest.raises(InvalidArgument, match="columns must map some of worker"):
        Trace.read(path, {"latency": "x"})
    with pytest.raises(InvalidArgument, match="unit must be one of s, ms"):
        Trace.read(path, unit="hours")
    with pytest.raises(DataError, match="There is no file"):
        Trace.read(tmp_path / "absent.csv")
    truncated = tmp_path / "t.csv.gz"
    small().write(truncated)
    truncated.write_bytes(truncated.read_bytes()[:300])
    with pytest.raises(DataError, match="the file is cut off or damaged"):
        Trace.read(truncated)
    with pytest.raises(InvalidArgument, match="table must hold finite seconds of at least 0, or NaN, got inf"):
        Trace.from_table(np.array([[1.0, np.inf]]))


def test_a_trace_is_shown_in_one_line_however_long_it_is() -> None:
    trace = delays.Trace.from_table(np.ones((50, 8)))
    assert repr(trace) == "Trace(400 samples: 50 steps of 8 workers, from the table)"


def test_a_part_of_a_trace_begins_at_zero() -> None:
    trace = small()
    half = trace.steps(20, 40)
    assert half.n_steps == 20
    assert (half.table() == trace.table()[20:]).all()


class TestBootstrap:
    TABLE = np.arange(12.0).reshape(4, 3)

    def test_rounds_are_drawn_whole(self) -> None:
        rows = delays.Bootstrap(self.TABLE, "rounds").rows(0, 500, 3)
        assert {tuple(row) for row in rows} == {tuple(row) for row in self.TABLE}

    def test_workers_draw_their_own_samples_independently(self) -> None:
        rows = delays.Bootstrap(self.TABLE, "workers").rows(0, 3000, 3)
        assert (rows % 3 == np.arange(3)).all()
        rounds = rows // 3
        assert abs(np.corrcoef(rounds.T) - np.eye(3)).max() < 0.08
        assert np.bincount(rounds[:, 0].astype(int)).min() > 650

    def test_pooled_draws_for_any_number_of_workers(self) -> None:
        rows = delays.Bootstrap(self.TABLE, "pooled").rows(0, 100, 50)
        assert set(rows.ravel()) == set(range(12))

    def test_blocks_keep_the_order_of_rounds(self) -> None:
        rows = delays.Bootstrap(self.TABLE, "rounds", block=5).rows(0, 1000, 1)[:, 0] // 3
        following = (rows[1:] - rows[:-1]) % 4 == 1
        assert following.reshape(-1)[np.arange(999) % 5 != 4].all()
        alone = delays.Bootstrap(self.TABLE, "workers", block=5).rows(0, 1000, 3) // 3
        assert ((alone[1:5] - alone[:4]) % 4 == 1).all()

    @pytest.mark.parametrize("keep", ["rounds", "workers", "pooled"])
    def test_any_block_of_steps_gives_the_same_rows(self, keep: _bootstrap.Keep) -> None:
        model = delays.Bootstrap(self.TABLE, keep, block=1 if keep == "pooled" else 3, seed=4)
        whole = model.rows(0, 50, 3)
        for first in (0, 1, 7, 48):
            assert (model.rows(first, 2, 3) == whole[first : first + 2]).all()
            assert (model.rows(first, 2, 2) == whole[first : first + 2, :2]).all()

    def test_the_scaled_law_divides_by_the_loads_of_the_trace(self) -> None:
        trace = Trace.from_table(self.TABLE, load=4.0)
        model = delays.Bootstrap.from_trace(trace, scale_with_load=True)
        assert set(model.rows(0, 200, 3, work=2.0).ravel()) == set(self.TABLE.ravel() / 2.0)

    def test_it_is_named_by_its_file(self, tmp_path: Path) -> None:
        small().write(tmp_path / "t.csv")
        model = delays.Bootstrap.from_trace(Trace.read(tmp_path / "t.csv"), "workers", block=2, seed=3)
        assert (delays.parse(str(model)).rows(3, 9, 6) == model.rows(3, 9, 6)).all()

    def test_what_cannot_be_drawn_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="must have 4 workers, got '3 workers'; keep='pooled'"):
            delays.Bootstrap(self.TABLE).row(0, 4)
        nothing = small()
        nothing.censored[:] = True
        with pytest.raises(DataError, match="no delay that is known exactly"):
            delays.Bootstrap.from_trace(nothing)
        with pytest.raises(InvalidArgument, match="absent must be 'censored', 'dead' or 'late', but it is 'gone'"):
            delays.Bootstrap.from_trace(small(), absent="gone")  # pyright: ignore


@pytest.mark.parametrize(
    ("column", "unit", "warned"),
    [
        ("latency_ms", "s", True),
        ("delay (ms)", "s", True),
        ("micros", "s", True),
        ("latency_ms", "ms", False),
        ("seconds", "s", False),
        ("columns", "s", False),
        ("latency_s", "s", False),
    ],
)
def test_a_column_that_is_called_by_another_unit_is_warned_of(
    tmp_path: Path, column: str, unit: str, warned: bool
) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text(f"worker,step,{column}\n" + "".join(f"{n % 3},{n // 3},{n + 1}\n" for n in range(9)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Trace.read(file, {"seconds": column}, unit=unit)
    assert any(f"{column!r} is taken for seconds" in str(item.message) for item in said) == warned


def test_the_mark_that_spreadsheets_put_first_is_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text("worker,step,seconds\n" + "".join(f"{n % 3},{n // 3},{n + 1}\n" for n in range(9)), "utf-8-sig")
    assert Trace.read(file).names == ("0", "1", "2")


@pytest.mark.parametrize("between", [", ", ";", "\t", " ; ", "   "])
def test_columns_may_be_separated_as_in_files_of_data(tmp_path: Path, between: str) -> None:
    rows = [("worker", "step", "seconds"), *((n % 3, n // 3, n + 0.5) for n in range(9))]
    file = tmp_path / "theirs.csv"
    file.write_text("\n".join(between.join(map(str, row)) for row in rows) + "\n")
    trace = Trace.read(file)
    assert (trace.names, trace.n_steps, trace.seconds.tolist()) == (("0", "1", "2"), 3, [n + 0.5 for n in range(9)])


def test_a_delimiter_at_the_end_of_a_line_is_no_other_number(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text("worker,step,seconds\n" + "".join(f"{n % 3},{n // 3},{n},{n * ','}\n" for n in range(9)))
    assert Trace.read(file).seconds.tolist() == list(range(9))


def test_lines_that_repeat_a_worker_and_a_step_are_counted(tmp_path: Path) -> None:
    rows = [f"{worker},{step},{1.0 + worker + step}\n" for step in range(3) for worker in range(2)]
    (tmp_path / "twice.csv").write_text("worker,step,seconds\n" + "".join(rows + rows[1:]))
    with pytest.warns(UserWarning, match=r"twice.csv: 5 lines repeat the worker and the step of another"):
        Trace.read(tmp_path / "twice.csv")


@pytest.mark.parametrize(("unit", "seconds"), [("s", "1.1e15"), ("s", "1e308"), ("ms", "1.1e18"), ("ns", "1e300")])
def test_a_delay_that_cannot_be_added_up_is_refused_with_its_line(tmp_path: Path, unit: str, seconds: str) -> None:
    (tmp_path / "t.csv").write_text(f"worker,step,seconds\n0,0,1\n1,0,{seconds}\n")
    with pytest.raises(DataError, match=rf"t.csv, line 3: seconds must be at most 1e\+15 s, but it is '{seconds}'"):
        Trace.read(tmp_path / "t.csv", unit=unit)
    with pytest.raises(DataError, match=r"the table has a delay of 1e\+16 s"):
        Trace.from_table(np.array([[1.0, 1e16]]))
    for model in ("exponential(mean=1e16)", "weibull(scale=1e16, shape=1)", "lognormal(1, 1, shift=1e16)"):
        with pytest.raises(InvalidArgument, match=r"must be at most 1e\+15, so that times can be added up"):
            delays.parse(model)


@pytest.mark.slow
@settings(max_examples=20)
@given(shortest=st.floats(-320, 15), seed=st.integers(0, 9))
def test_delays_of_any_magnitude_are_shown_fitted_and_drawn_without_warnings(shortest: float, seed: int) -> None:
    table = np.power(10.0, np.random.default_rng(seed).uniform(shortest, 15.0, (12, 3)))
    trace = Trace.from_table(table)
    assert ((trace.seconds == 0.0) | (trace.seconds >= 1e-15)).all()
    trace.remarks()
    _summaries.summarize(trace)
    fitted = delays.fit_trace(trace)[0]
    assert np.isfinite(list(fitted.parameters.values())).all()
    assert (fitted.model.rows(0, 20, 3) >= 0.0).all()

"""`erasurehead codes`: the catalogue, one code, codes side by side; and their figures against closed forms."""

from __future__ import annotations

from functools import partial
from io import StringIO
from math import comb
from pathlib import Path
from typing import Any

import pytest

from erasurehead import codes, decoding
from erasurehead.codes import _registry

from .shop import Finished, Typed

FANO_TIMES_TRIANGLE = "kronecker(projective_plane(2), block_design([[0, 1], [1, 2], [0, 2]]))"


def curves(done: Finished, place: int = 0) -> dict[str, Any]:
    """The curves of one code, from the JSON of `compare`."""
    assert done.code == 0, done.err
    return done.json["codes"][place]["curves"]


def test_every_help_has_an_example_that_can_be_typed(typed: Typed) -> None:
    assert "codes" in typed("--help").out
    assert "erasurehead codes list" in typed("codes", "--help").out
    for name in ("list", "show", "compare"):
        done = typed("codes", name, "--help")
        assert done.code == 0
        assert f"erasurehead codes {name}" in done.out
        assert "--json" in done.out


def test_the_list_has_every_code_and_lines_up(typed: Typed) -> None:
    done = typed("codes", "list")
    assert done.code == 0
    header, *lines = done.out.splitlines()
    kind, guarantees, choose = (header.index(name) for name in ("Kind", "Guarantees", "Choose it"))
    firsts = [line for line in lines if line[:1].strip()]
    assert [line.split()[0] for line in firsts] == [family.name for family in codes.catalogue()]
    for line, family in zip(firsts, codes.catalogue(), strict=True):
        assert line[kind:guarantees].strip() == family.status
        assert line[guarantees - 1] == line[choose - 1] == " "
        assert family.choose.replace("`", "").startswith(line[choose:].strip())
        assert family.promise.replace("`", "").startswith(line[guarantees:choose].strip())


def test_the_list_fits_into_a_narrow_terminal() -> None:
    from rich.console import Console

    from erasurehead.cli._code_pages import CatalogueTable

    console = Console(width=80, file=StringIO())
    with console.capture() as printed:
        console.print(CatalogueTable(codes.catalogue()))
    lines = printed.get().splitlines()
    assert lines[0].split() == ["Code", "Kind", "Guarantees", "/", "choose", "it"]
    assert max(map(len, lines)) <= 80
    assert sum("→ " in line for line in lines) == len(codes.catalogue())


def test_the_page_of_a_code_fits_into_a_narrow_terminal() -> None:
    from rich.console import Console

    from erasurehead.cli._code_pages import FamilyPage

    console = Console(width=80, file=StringIO())
    for family in codes.catalogue():
        with console.capture() as printed:
            console.print(FamilyPage(family.name, family.example_code))
        page = _registry.describe(family.name, 80).partition("Parameters:")[2]
        assert page in printed.get()  # lines are not broken once more
        assert max(map(len, page.splitlines())) <= 80


def test_the_list_as_json_is_the_catalogue(typed: Typed) -> None:
    rows = typed("codes", "list", "--json").json["codes"]
    assert rows == [family.row() for family in codes.catalogue()]


@pytest.mark.slow
@pytest.mark.parametrize("family", codes.catalogue(), ids=lambda family: family.name)
def test_every_family_can_be_shown_with_the_figures_of_its_example(
    typed: Typed, family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(decoding.analyse, samples=5, effort=5, enumerate_up_to=20)  # of sets, whose residuals others look at
    monkeypatch.setattr(decoding, "analyse", few)
    done = typed("codes", "show", family.name, "--json")
    assert done.code == 0, done.err
    built, code = done.json["built"], family.example_code
    assert done.json["name"] == family.name
    assert built["call"] == repr(code)
    assert (built["n_workers"], built["n_tasks"], built["load"]) == (code.n_workers, code.n_tasks, code.load)
    assert built["tolerance"] == code.tolerance
    assert built["bytes_per_message"] == 1 / code.n_pieces
    assert built["upload"] == max(code.messages_per_worker) / code.n_pieces
    assert built["replication"] == [min(code.replication), max(code.replication)]


@pytest.mark.slow
def test_showing_a_code_tells_all_that_its_family_promises_and_what_it_costs(typed: Typed) -> None:
    done = typed("codes", "show", "cyclic_mds(30, stragglers=5)")
    row = _registry.family("cyclic_mds")
    assert done.out.startswith(_registry.describe("cyclic_mds"))
    facts = {line[:15].strip(): line[15:].strip() for line in done.out.split(":\n  workers")[1].splitlines() if line}
    assert facts["load"].startswith("6 tasks on the busiest worker")
    assert facts["tolerates"] == "any 5 stragglers, exactly"
    assert facts["messages"] == "1 per worker and step, each as long as the gradient"
    assert facts["spectral gap"].startswith("0.83")
    assert row.source in done.out


def test_a_code_made_of_another_one_is_shown(typed: Typed) -> None:
    shown = typed("codes", "show", "refine(cyclic_mds(6, stragglers=3), n_tasks=15)", "--json").json
    assert (shown["name"], shown["built"]["tolerance"]) == ("refine", 3)


def test_what_was_rounded_is_said_on_the_page_that_was_asked_for(typed: Typed) -> None:
    done = typed("codes", "show", "design_for(30, load=5)")
    assert done.out.startswith("design_for(n_workers, load)")
    assert "No balanced design here has 30 workers and load 5; the nearest is projective_plane(5)" in done.out


def test_pieces_make_messages_shorter(typed: Typed) -> None:
    done = typed("codes", "show", "communication_efficient_groups(12, load=4, n_pieces=2)")
    assert "each 1/2 as long as the gradient" in done.out
    assert "any 2 stragglers, exactly" in done.out


def test_designs_leave_what_the_formula_says_to_random_and_worst_stragglers(typed: Typed) -> None:
    """SCHEMES 5: b - r^2 (v - s) / (r + lambda (v - s - 1)); AG(2, 3): .363636, .8, 1.333333."""
    done = typed("codes", "compare", "projective_plane(3)", "affine_plane(3)", "--stragglers", "0-6", "--json")
    for place, (v, b, r, common) in enumerate(((13, 13, 4, 1), (9, 12, 4, 1))):
        found = curves(done, place)
        for s, mean, worst, bound in zip(
            found["stragglers"], found["mean"], found["worst"], found["bound"], strict=True
        ):
            expected = b - r**2 * (v - s) / (r + common * (v - s - 1))
            assert mean == pytest.approx(expected, abs=1e-9)
            assert worst == pytest.approx(expected, abs=1e-9)
            assert bound == pytest.approx(expected, abs=1e-6)
    assert curves(done)["mean"][4] == pytest.approx(1.0)
    assert curves(done, 1)["mean"][1:4] == pytest.approx([0.363636, 0.8, 1.333333], abs=1e-6)


def test_repetition_meets_the_closed_forms_of_the_k_60_table(typed: Typed) -> None:
    """SCHEMES 3: one-step k(k-s)(k-r)/(r s (k-1)), optimal k C(k-s,r)/C(k,r), adversary s floor((k-r)/s)."""
    k, load = 60, 5
    done = typed("codes", "compare", "fractional_repetition(60, load=5)", "--stragglers", "20%,15,30", "--json")
    found = curves(done)
    assert found["stragglers"] == [12, 15, 30]
    for place, s in enumerate(found["stragglers"]):
        r = k - s
        assert found["one_step"][place] == pytest.approx(k * (k - load) * (k - r) / (r * load * (k - 1)))
        assert found["mean"][place] == pytest.approx(k * comb(k - load, r) / comb(k, r))
        assert found["worst"][place] == load * (s // load)
    assert found["one_step"][0] == pytest.approx(2.7966, abs=1e-4)
    assert found["worst"][1] == 15
    assert all(found["worst_proven"])


@pytest.mark.slow
def test_one_step_decoding_does_not_tell_biregular_codes_apart(typed: Typed) -> None:
    """SCHEMES, Lemma A; the optimal means of the k = 60 table: repetition 0.00, s-regular 0.68 (delta = 0.2)."""
    texts = "fractional_repetition(60, load=5)", "regular(60, load=5)"
    done = typed("codes", "compare", *texts, "--stragglers", "12", "--samples", 400, "--effort", 20, "--json")
    repetition, regular = curves(done), curves(done, 1)
    assert regular["one_step"] == pytest.approx(repetition["one_step"])
    assert repetition["mean"][0] < 0.01
    assert regular["mean"][0] == pytest.approx(0.68, abs=0.1)
    assert 0 < regular["mean_error"][0] < 0.05


@pytest.mark.slow
def test_the_spectral_bound_is_that_of_lemma_u(typed: Typed) -> None:
    shown = typed("codes", "show", "expander(30, load=4)", "--json").json["built"]
    x = (shown["second_eigenvalue"] / 4) ** 2
    assert shown["spectral_ratio"] == pytest.approx(x)
    assert shown["spectral_gap"] == pytest.approx(4 - shown["second_eigenvalue"])
    found = shown["analysis"]["curves"]
    for s, bound, worst in zip(found["stragglers"], found["bound"], found["worst"], strict=True):
        assert bound == pytest.approx(30 * x * s / (30 - s + x * s))
        assert worst <= bound + 1e-9


def test_kronecker_products_meet_their_vectors(typed: Typed) -> None:
    """SCHEMES 6b, as parts of the tasks: worst .00397, .01190, .03571; bound .0123, .0256, .0400."""
    found = curves(typed("codes", "compare", FANO_TIMES_TRIANGLE, "--stragglers", "1-3", "--json"))
    assert [value / 21 for value in found["worst"]] == pytest.approx([0.00397, 0.01190, 0.03571], abs=1e-5)
    assert [value / 21 for value in found["bound"]] == pytest.approx([0.0123, 0.0256, 0.0400], abs=1e-4)
    assert all(found["worst_proven"])


def test_a_comparison_shows_costs_and_residuals(typed: Typed) -> None:
    done = typed("codes", "compare", "projective_plane(3)", "fractional_repetition(12, load=4)", "--stragglers", "4")
    assert done.code == 0
    costs, residuals = done.out.split("Stragglers")
    rows = [line.split() for line in costs.splitlines() if line.startswith(("projective", "fractional"))]
    assert rows[0] == ["projective_plane(3)", "13", "13", "4", "4", "1", "0", "0.54", "UniformOverlap"]
    assert rows[1][-7:] == ["12", "4", "4", "1", "3", "1", "FirstPerGroup"]
    lines = [line for line in residuals.splitlines() if line.startswith(("projective", "fractional"))]
    assert lines[0].split() == ["projective_plane(3)", "4", "30.8", "7.69", "8.33", "7.69", "7.69"]
    assert lines[1].split()[2:] == ["4", "33.3", "0.20", "9.09", "33.33", "33.33"]
    assert "pictures" not in done.out


@pytest.mark.slow
def test_pictures_are_where_they_were_asked_for(typed: Typed) -> None:
    pytest.importorskip("matplotlib")
    texts = "projective_plane(3)", "fractional_repetition(12, load=4)"
    done = typed("codes", "compare", *texts, "--out", "pictures", "--json")
    files = [f"pictures/{name}.{kind}" for name in ("residual", "one_step", "adversary") for kind in ("png", "svg")]
    assert done.json["files"] == files
    assert all(Path(file).stat().st_size > 5000 for file in files)
    assert curves(done)["stragglers"] == list(range(7))  # up to half of the workers
    assert "residual.png" in typed("codes", "compare", *texts, "--out", "pictures").out


def test_the_same_seed_gives_the_same_figures(typed: Typed) -> None:
    asked = "codes", "compare", "bernoulli(20, load=3)", "--stragglers", "5", "--json", "--samples", 20, "--seed"
    first, again, other = (curves(typed(*asked, seed)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("typed_in", "sentence"),
    [
        (["show", "fractional_repetion"], "the nearest is fractional_repetition"),
        (["show", ""], "CODE must not be empty, got ''."),
        (["show", "cyclic_mds(n_workers=9, n_workers=7)"], "CODE must give 'n_workers' to cyclic_mds once"),
        (["show", "brc"], "CODE must be a code of the catalogue, but it is 'brc'"),
        (["compare", "regulr(30, load=3)"], "the nearest is regular"),
        (["show", "projective_plane(6)"], "order must be a prime power"),
        (["compare", "cyclic_mds(30, stragglers=4)"], "use stragglers=5 (load 6), or complex_cyclic_mds"),
        (["show", "fractional_repetition(n_workers=12)"], "missing a required argument: 'load'"),
        (["show", "fractional_repetition(12, load=3, lod=3)"], "which has no 'lod'"),
        (["compare", "regular"], "CODE must be given with its parameters, as in 'regular(n_workers=30, load=4"),
        (["compare", "uncoded(3"], "got 'uncoded(3'"),
        (["compare", "uncoded(12)", "--stragglers", "13"], "--stragglers must be at most the 12 workers of each code"),
        (["compare", "uncoded(12)", "--stragglers", "3-1"], "--stragglers must be numbers, ranges or parts"),
        (["compare", "uncoded(12)", "--stragglers", "101%"], "such as 3,6 or 1-10 or 25%"),
        (["compare", "uncoded(12)", "--stragglers", "1,,2"], "such as 3,6 or 1-10 or 25%"),
        (["compare", "cyclic_mds(5, 2)", "--samples", "0"], "samples must be at least 1"),
        (["compare", "custom([[1.0, 0.0]])"], "matrix must have no empty column"),
        (["compare", "uncoded(12)", "--out", "/dev/null/here"], "'/dev/null' is a file; name another one (--out)"),
    ],
)
def test_bad_input_is_told_in_one_sentence(typed: Typed, typed_in: list[str], sentence: str) -> None:
    done = typed("codes", *typed_in)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.sentence
    assert done.sentence.startswith("erasurehead: ")
    assert done.sentence.endswith(".")


@pytest.mark.parametrize(
    "code", ["cyclic_repetition(n_workers=90_000, stragglers=80_000)", "fractional_repetition(90_000, load=90_000)"]
)
def test_a_code_that_needs_too_much_memory_is_refused_before_it_is_built(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("ERASUREHEAD_MEMORY", "2e9")
    done = typed("codes", "show", code)
    assert (done.code, done.out) == (2, "")
    assert " of 90,000 workers needs about " in done.err
    assert "and 2.0 GB may be taken (ERASUREHEAD_MEMORY); name fewer workers." in done.err


@pytest.mark.parametrize(
    "code", ["projective_plane(99991)", "affine_plane(99991)", "twin_primes(99989)", "margulis(100000)"]
)
def test_planes_and_grids_are_as_large_as_the_square_of_their_parameter(typed: Typed, code: str) -> None:
    done = typed("codes", "show", code)
    assert done.code != 0
    assert " workers needs about " in done.sentence


def test_a_parameter_of_a_code_is_not_taken_for_the_option_of_that_name(typed: Typed) -> None:
    done = typed("codes", "compare", "cyclic_mds(6, stragglers=2)")
    assert done.code == 2
    assert done.sentence.startswith(
        "erasurehead: CODE 'cyclic_mds(6, stragglers=2)': stragglers must leave an odd number"
    )

"""The registry of all families of codes: what each promises, and building a code by its name."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Mapping
from typing import cast

from erasurehead._internal.resources import check_memory
from erasurehead.codes._base import GradientCode
from erasurehead.codes._bernoulli import bernoulli, regularised_bernoulli, stochastic_block
from erasurehead.codes._communication_efficient import communication_efficient_cyclic, communication_efficient_groups
from erasurehead.codes._custom_code import custom
from erasurehead.codes._cyclic import complex_cyclic_mds, cyclic_mds, cyclic_repetition, exact_cyclic
from erasurehead.codes._designs import (
    affine_plane,
    biquadratic,
    block_design,
    design_for,
    paley,
    projective_plane,
    twin_primes,
)
from erasurehead.codes._draco import draco_cyclic, draco_repetition
from erasurehead.codes._expanders import expander, margulis, regular
from erasurehead.codes._families import Family
from erasurehead.codes._graph_codes import edge_code, graph_code
from erasurehead.codes._heterogeneous import (
    heterogeneous_balanced,
    heterogeneous_exclusive,
    heterogeneous_held,
    heterogeneous_staircase,
)
from erasurehead.codes._nested import nested
from erasurehead.codes._placed import placed
from erasurehead.codes._product import kronecker, refine
from erasurehead.codes._random_assignments import batched_coupons, stochastic_gradient
from erasurehead.codes._reed_solomon import reed_solomon
from erasurehead.codes._repetition import binary_repetition, fractional_repetition, uncoded
from erasurehead.codes._several_messages import multi_message, partial_stragglers
from erasurehead.codes._soft_designs import soft_design
from erasurehead.errors import InvalidArgument, counted, invalid, real

_TRIANGLE = ((0, 1), (1, 2), (0, 2))
_CHANCES = (0.05, 0.1, 0.1, 0.2, 0.4)

FAMILIES: tuple[Family, ...] = (
    Family(uncoded, "approximate", "exact when every worker answers", lambda: uncoded(12)),
    Family(
        fractional_repetition,
        "exact",
        "exact as soon as one worker of every group has answered",
        lambda: fractional_repetition(12, load=3),
    ),
    Family(
        binary_repetition,
        "exact",
        "exact for any set of at most `stragglers` stragglers, with no rounding at all",
        lambda: binary_repetition(11, stragglers=3),
    ),
    Family(
        cyclic_repetition,
        "exact",
        "exact for any set of at most `stragglers` stragglers, at the least possible load",
        lambda: cyclic_repetition(12, stragglers=2),
    ),
    Family(
        cyclic_mds,
        "exact",
        "exact for any set of at most `stragglers` stragglers, at the least possible load",
        lambda: cyclic_mds(12, stragglers=3),
    ),
    Family(
        complex_cyclic_mds,
        "exact",
        "exact for any set of at most `stragglers` stragglers, at the least possible load",
        lambda: complex_cyclic_mds(12, stragglers=2),
    ),
    Family(
        exact_cyclic,
        "exact",
        "exact for any set of at most `stragglers` stragglers",
        lambda: exact_cyclic(12, stragglers=2),
    ),
    Family(
        placed,
        "exact",
        "exact for any set of at most `stragglers` stragglers, wherever the data are",
        lambda: placed([[0], [1, 2], [3, 4, 5], [6, 0, 1, 2], [3, 4, 5, 6]], stragglers=1),
    ),
    Family(
        reed_solomon,
        "exact",
        "exact for any set of fewer than n_workers * load / n_tasks stragglers",
        lambda: reed_solomon(10, load=2, n_tasks=5),
    ),
    Family(
        partial_stragglers,
        "depends",
        "exact when all first messages are in, and all but `code.tolerance` of the second ones",
        lambda: partial_stragglers(fractional_repetition(12, load=3), slowness=2),
    ),
    Family(
        nested,
        "exact",
        "exact as soon as n - t workers have finished t + 1 tasks, for any t",
        lambda: nested(8, stragglers=2),
    ),
    Family(multi_message, "exact", "exact as soon as every task has arrived once", lambda: multi_message(12, load=3)),
    Family(
        communication_efficient_groups,
        "exact",
        "exact as soon as every group has enough messages",
        lambda: communication_efficient_groups(12, load=4, n_pieces=2),
    ),
    Family(
        communication_efficient_cyclic,
        "exact",
        "exact for any set of at most load - n_pieces stragglers",
        lambda: communication_efficient_cyclic(10, n_pieces=2, stragglers=2),
    ),
    Family(
        batched_coupons, "depends", "exact as soon as every batch has been seen", lambda: batched_coupons(24, load=6)
    ),
    Family(
        draco_repetition,
        "exact",
        "exact, and liars are named, if at most `corrupted` workers lie and all answer",
        lambda: draco_repetition(12, corrupted=1),
    ),
    Family(
        draco_cyclic,
        "exact",
        "exact, and liars are located, if at most `corrupted` workers lie and all answer",
        lambda: draco_cyclic(9, corrupted=2),
    ),
    Family(
        regular,
        "approximate",
        "a bound on the residual for any stragglers, by the spectrum of the draw",
        lambda: regular(30, load=4),
    ),
    Family(
        expander,
        "approximate",
        "a bound on the residual for any stragglers, by the graph's second eigenvalue",
        lambda: expander(30, load=4),
    ),
    Family(margulis, "approximate", "a bound on the residual for any stragglers, without a draw", lambda: margulis(5)),
    Family(
        graph_code,
        "approximate",
        "exact as long as every task lies on a component of answering workers with an odd cycle",
        lambda: graph_code(30, replication=3),
    ),
    Family(
        edge_code,
        "approximate",
        "exact when all workers answer, if every connected part has an odd cycle or equal sides",
        lambda: edge_code(_TRIANGLE),
    ),
    Family(
        bernoulli,
        "approximate",
        "the residual on average over draws; nothing for any one draw",
        lambda: bernoulli(30, load=5),
    ),
    Family(
        regularised_bernoulli,
        "approximate",
        "no worker holds more than 2 load tasks",
        lambda: regularised_bernoulli(30, load=3),
    ),
    Family(
        stochastic_block,
        "approximate",
        "nothing for any one draw",
        lambda: stochastic_block(30, block=5, within=0.8, between=0.04),
    ),
    Family(
        projective_plane,
        "approximate",
        "the guarantee of a block design: all stragglers are as bad as random ones",
        lambda: projective_plane(3),
    ),
    Family(
        affine_plane,
        "approximate",
        "the guarantee of a block design: all stragglers are as bad as random ones",
        lambda: affine_plane(4),
    ),
    Family(
        paley,
        "approximate",
        "the guarantee of a block design: all stragglers are as bad as random ones",
        lambda: paley(11),
    ),
    Family(
        biquadratic,
        "approximate",
        "the guarantee of a block design: all stragglers are as bad as random ones",
        lambda: biquadratic(37),
    ),
    Family(
        twin_primes,
        "approximate",
        "the guarantee of a block design: all stragglers are as bad as random ones",
        lambda: twin_primes(3),
    ),
    Family(
        block_design,
        "approximate",
        "the least spectral bound of all biregular codes: all stragglers are as bad as random ones",
        lambda: block_design(_TRIANGLE),
    ),
    Family(
        design_for, "approximate", "the guarantee of the best design of about this size", lambda: design_for(30, load=5)
    ),
    Family(
        soft_design,
        "approximate",
        "the residual on average over draws; nothing for any one draw",
        lambda: soft_design(24, load=6, density=0.35),
    ),
    Family(
        stochastic_gradient,
        "approximate",
        "the fixed-weight sum is unbiased",
        lambda: stochastic_gradient(20, replication=3, straggling=0.2),
    ),
    Family(
        heterogeneous_staircase,
        "approximate",
        "the plain sum of what arrives is unbiased, with the least possible variance",
        lambda: heterogeneous_staircase(_CHANCES),
    ),
    Family(
        heterogeneous_exclusive,
        "approximate",
        "the plain sum of what arrives is unbiased, with the least possible variance",
        lambda: heterogeneous_exclusive(_CHANCES),
    ),
    Family(
        heterogeneous_held,
        "approximate",
        "the plain sum of what arrives is unbiased, with the least residual for these holders",
        lambda: heterogeneous_held(_CHANCES, [[0, 1], [1, 2], [3, 4, 0]]),
    ),
    Family(
        heterogeneous_balanced,
        "approximate",
        "the plain sum of what arrives is unbiased, with the least residual for its holders",
        lambda: heterogeneous_balanced(_CHANCES, load=2),
    ),
    Family(
        kronecker,
        "depends",
        "exact for any set of fewer than (t1 + 1) (t2 + 1) stragglers, for factors that bear t1 and t2",
        lambda: kronecker(projective_plane(2), block_design(_TRIANGLE)),
    ),
    Family(refine, "depends", "the code's own tolerance", lambda: refine(cyclic_mds(6, stragglers=3), n_tasks=15)),
    Family(
        custom,
        "depends",
        "the tolerance of the matrix",
        lambda: custom([[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]]),
    ),
)


_MANY = 100_000  # coefficients from which the memory for a code is checked first
_BYTES = 40  # least memory per coefficient while a code is built

_BY_NAME = {entry.name: entry for entry in FAMILIES}


def catalogue() -> tuple[Family, ...]:
    """Return all families, in the order of the catalogue.

    >>> [family.name for family in catalogue()][:3]
    ['uncoded', 'fractional_repetition', 'binary_repetition']
    """
    return FAMILIES


_ABBREVIATIONS = {
    "frc": ["fractional_repetition"],
    "crc": ["cyclic_repetition", "cyclic_mds"],
    "mds": ["cyclic_mds"],
    "rs": ["reed_solomon"],
    "bgc": ["bernoulli"],
    "rbgc": ["regularised_bernoulli"],
    "sbc": ["stochastic_block"],
    "sgc": ["stochastic_gradient"],
    "bibd": ["projective_plane", "affine_plane", "paley", "block_design"],
    "bcc": ["batched_coupons"],
    "draco": ["draco_repetition", "draco_cyclic"],
}
"""The papers' abbreviations."""


def family(name: str) -> Family:
    """Return the family with a name.

    Arguments:
        name: as in `catalogue`.

    Raises:
        InvalidArgument: if there is none; the message lists all names, or the nearest ones.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = _ABBREVIATIONS.get(str(name).lower()) or difflib.get_close_matches(str(name), _BY_NAME, n=3)
    hint = f"the nearest is {' or '.join(near)}" if near else f"there are {', '.join(_BY_NAME)}"
    raise invalid("name", "must be a code of the catalogue", name, hint)


def build(name: str, *arguments: object, **parameters: object) -> GradientCode:
    """Build a code by its name, as run files and the command line do.

    Arguments:
        name: name of a family in the catalogue.
        *arguments: the constructor's first parameters.
        **parameters: the others by name; for a code, a mapping with its `name` and parameters will do.

    Raises:
        InvalidArgument: if there is no such family, a parameter is unknown, missing, or of the wrong type.

    >>> build("fractional_repetition", 12, load=3)
    fractional_repetition(n_workers=12, load=3, n_tasks=12)
    >>> build("refine", code={"name": "cyclic_mds", "n_workers": 6, "stragglers": 3}, n_tasks=12).n_tasks
    12
    """
    chosen = family(name)
    signature = inspect.signature(chosen.constructor)
    specs = signature.parameters
    for key in parameters:
        if key not in specs:
            sentence = f"{name} has no parameter {key!r}; it has {', '.join(specs)}: {chosen.signature}."
            raise InvalidArgument(key, f"must be a parameter of {name}", sentence=sentence)
    try:
        parameters = signature.bind_partial(*arguments, **parameters).arguments
    except TypeError as error:
        sentence = f"{name} cannot be built so ({error}): {chosen.signature}."
        raise InvalidArgument("arguments", f"must fit {name}", sentence=sentence) from None
    # 1 first: others may be NaN. Planes and grids have the square of their parameter as workers.
    side = max(1.0, *(real(parameters.get(key, 0)) for key in ("order", "side", "smaller")))
    n_workers = max(1.0, real(parameters.get("n_workers", 1)), side**2 if side > 1.0 else 1.0)
    load = max(1.0, real(parameters.get("load", 0)), real(parameters.get("order", 0)) + 1.0)
    coefficients = n_workers * max(load, min(real(parameters.get("stragglers", 0)) + 1, n_workers))
    if coefficients > _MANY:
        check_memory(f"{name} of {n_workers:,.0f} workers", _BYTES * coefficients, "name fewer workers")
    missing = [key for key, spec in specs.items() if spec.default is spec.empty and key not in parameters]
    if missing:
        sentence = f"{name} needs {' and '.join(missing)}: {chosen.signature}."
        raise InvalidArgument(missing[0], f"must be given for {name}", sentence=sentence)
    return chosen.constructor(**{key: _argument(specs[key], value) for key, value in parameters.items()})


def describe(name: str | None = None, width: int = 100) -> str:
    """Return the page of one family, or one line for each family, as text.

    Arguments:
        name: name of a family; None for one line per family.
        width: number of characters that a line of a page may have.

    >>> describe().splitlines()[0].split()[:3]
    ['uncoded', 'approximate', 'Every']
    """
    if name is None:
        return "\n".join(f"{row.name:<31} {row.status:<12} {row.summary}" for row in catalogue())
    row = family(name)
    arguments = "\n".join(
        textwrap.fill(f"{key}: {text}", width, initial_indent="    ", subsequent_indent="        ")
        for key, text in row.arguments.items()
    )
    summary = textwrap.fill(row.summary, width)
    parts = {
        "Guarantees": row.guarantee,
        "Choose it": row.choose,
        "Source": row.source,
        "Example": f"{row.example_code!r}: {counted('worker', row.example_code.n_workers)}, load "
        f"{row.example_code.load},"
        f" tolerance {row.example_code.tolerance}",
    }
    body = "\n".join(textwrap.fill(f"{key}: {text}", width, subsequent_indent="    ") for key, text in parts.items())
    return f"{row.signature}  [{row.status}]\n{summary}\n\nParameters:\n{arguments}\n\n{body}\n"


def _argument(spec: inspect.Parameter, value: object) -> object:
    """Return a parameter's value, building described codes; raise if it has the wrong type."""
    wanted = str(spec.annotation)
    if wanted == "GradientCode":
        if isinstance(value, GradientCode):
            return value
        inner = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
        if "name" not in inner:
            given = dict(inner) or f"{value}"
            raise invalid(spec.name, "must be a code, or a mapping with the name and parameters of one", given)
        return build(str(inner["name"]), **{key: inner[key] for key in inner if key != "name"})
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted in ("int", "float") and not number:
        raise invalid(spec.name, "must be a number", value)
    if wanted in ("int | None", "float | None") and not number and value is not None:
        raise invalid(spec.name, "must be a number, or be left out", value)
    if wanted == "bool" and not isinstance(value, bool):
        raise invalid(spec.name, "must be true or false", value)
    return value

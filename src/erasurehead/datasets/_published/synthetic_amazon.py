"""The synthetic stand-in of Amazon Employee Access: an organisation of departments, managers and roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets._published.recipes import AMAZON, AMAZON_COLUMNS, AMAZON_PAIRS
from erasurehead.datasets._published.skew import by_rank, covering, repeated, scaled, stand_in, zipf
from erasurehead.datasets._readers.table import Table


def count_pairs(codes: Mapping[str, IntArray], pairs: Sequence[tuple[str, str]]) -> int:
    """Return the number of distinct pairs of values, summed over pairs of columns."""
    return sum(len(np.unique(_keys(codes[first], codes[second]))) for first, second in pairs)


def reach_total(
    rng: np.random.Generator,
    codes: Mapping[str, IntArray],
    changed: str,
    grouped: str,
    pairs: Sequence[tuple[str, str]],
    total: int,
) -> None:
    """Change values of one column, in place, until the pairs have exactly the given number of distinct values.

    A row is given a value drawn from all rows, which tends to make new pairs, or from the rows of the same group,
    which tends to make fewer. A change is kept if it brings the total closer. No value of the column gets lost.

    Arguments:
        rng: source of the draws.
        codes: columns of whole numbers from 0, shape (n_rows,) each.
        changed: the column whose values change.
        grouped: the column whose values group the rows.
        pairs: the pairs of columns.
        total: the number to reach.
    """
    values = codes[changed]
    others = [codes[first if second == changed else second] for first, second in pairs if changed in (first, second)]
    counts = [Counter(zip(values.tolist(), other.tolist(), strict=True)) for other in others]
    uses = np.bincount(values)
    members = np.argsort(codes[grouped], kind="stable")
    begin = np.searchsorted(codes[grouped][members], codes[grouped])
    size = np.bincount(codes[grouped])[codes[grouped]]
    lack = total - count_pairs(codes, pairs)
    while lack:
        for row in repeated(rng, values):
            donor = rng.integers(len(values)) if lack > 0 else members[begin[row] + rng.integers(size[row])]
            old, new = int(values[row]), int(values[donor])
            if new == old or uses[old] == 1:
                continue
            beside = list(zip(counts, (int(other[row]) for other in others), strict=True))
            gain = sum((count[new, value] == 0) - (count[old, value] == 1) for count, value in beside)
            if abs(lack - gain) >= abs(lack):
                continue
            for count, value in beside:
                count[new, value] += 1
                count[old, value] -= 1
            uses[new] += 1
            uses[old] -= 1
            values[row] = new
            lack -= gain
            if not lack:
                return


def _keys(first: IntArray, second: IntArray) -> IntArray:
    return first * (int(second.max()) + 1) + second


N_PAIRS = 226_288
"""Distinct pairs of values in the public file, over the 34 pairs of columns."""

_DENIED = 1897 / 32_769  # share of label 0

# Chosen so that full gradient descent with the published settings learns about as fast and as far as on the public file
_EFFECTS = {"RESOURCE": 1.0, "MGR_ID": 1.4, "ROLE_DEPTNAME": 1.0}
_CHANCE = 0.35
_COMMON = 50  # values that occur more often have milder effects, so that no single one decides how hard the data are


@dataclass(frozen=True)
class _Sizes:
    """Distinct values of each column; titles and role codes correspond one to one."""

    resources: int = 7518
    managers: int = 4243
    rollups: int = 128
    divisions: int = 177
    departments: int = 449
    titles: int = 343
    roles: int = 2358
    families: int = 67


def _sizes(n_rows: int) -> _Sizes:
    whole = _Sizes()
    return _Sizes(*(scaled(size, 1, n_rows, AMAZON.n_rows)[0] for size in vars(whole).values()))


# The numbers below were fitted by random search, so that the distinct pairs of each pair of columns, and how often the
# commonest values come, are within some per cent of the public file's.


def amazon_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of requests for access.

    With 32,769 rows every column has as many distinct values as in the public file, and all pairs together have
    exactly as many, so that the design matrix has its 241,915 columns; the number for each pair of columns is close.
    """
    sizes = _sizes(n_rows)
    division_weights = zipf(sizes.divisions, 1.23, 0.62)
    division_of_department = covering(rng, sizes.departments, division_weights)
    department_weights = zipf(sizes.departments, 0.92, 4.9)
    department_of_manager = covering(rng, sizes.managers, department_weights)

    managers = np.arange(sizes.managers)  # every manager has a row, of the home department
    more = rng.choice(sizes.managers, size=n_rows - sizes.managers, p=zipf(sizes.managers, 0.73, 25.0))
    manager = np.concatenate([managers, more])
    department = department_of_manager[manager]
    _stray(rng, department, 0.024, department_weights)
    division = _divisions(rng, division_of_department, department_of_manager, division_weights)[manager]
    _stray(rng, division, 0.009, division_weights)
    rollup = _rollups(rng, sizes)[division]

    role, title, family = _roles(rng, sizes, division_of_department, department_of_manager, manager)
    resource = _resources(rng, sizes, department, family)
    rows = rng.permutation(n_rows)
    columns: list[IntArray] = [resource, manager, rollup, division, department, title, role, family, title]
    codes: dict[str, IntArray] = dict(zip(AMAZON_COLUMNS, (column[rows] for column in columns), strict=True))
    if n_rows == AMAZON.n_rows:
        reach_total(rng, codes, "RESOURCE", "MGR_ID", AMAZON_PAIRS, N_PAIRS)
    numbered = {name: _numbered(rng, column) for name, column in codes.items()}
    return stand_in({**numbered, "ACTION": _granted(rng, codes).astype(np.float64)})


def _stray(rng: np.random.Generator, values: IntArray, share: float, weights: Array) -> None:
    """Give a fraction of the rows another value, among rows whose value also occurs in another row."""
    rows = repeated(rng, values)[: round(share * len(values))]
    values[rows] = rng.choice(len(weights), size=len(rows), p=weights)


def _divisions(
    rng: np.random.Generator, of_department: IntArray, department_of_manager: IntArray, weights: Array
) -> IntArray:
    """Return each manager's division: mostly that of the department, always so for one of its managers."""
    home = of_department[department_of_manager]
    elsewhere = rng.random(len(home)) < 0.11
    elsewhere[np.unique(department_of_manager, return_index=True)[1]] = False
    return np.where(elsewhere, rng.choice(len(weights), size=len(home), p=weights), home)


def _rollups(rng: np.random.Generator, sizes: _Sizes) -> IntArray:
    """Return each division's rollup: one holds the largest divisions and most others; the others hold one each."""
    rollup = np.zeros(sizes.divisions, dtype=np.int64)
    largest = min(26, sizes.divisions - sizes.rollups + 1)
    alone = largest + rng.permutation(sizes.divisions - largest)[: sizes.rollups - 1]
    rollup[alone] = 1 + np.arange(len(alone))
    return rollup


def _roles(
    rng: np.random.Generator,
    sizes: _Sizes,
    division_of_department: IntArray,
    department_of_manager: IntArray,
    manager: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return each row's role description, title and role family.

    Each role has a title, and each title a family. A division has few families, a department few roles of these, and a
    manager mostly in one or two of these.
    """
    family_weights = zipf(sizes.families, 1.13)
    title_weights = zipf(sizes.titles, 1.3)
    role_weights = zipf(sizes.roles, 0.99, 0.38)
    family_of_title = covering(rng, sizes.titles, family_weights)
    title_of_role = covering(rng, sizes.roles, title_weights)
    family_of_role = family_of_title[title_of_role]
    families = rng.choice(sizes.families, size=(sizes.divisions, 9), p=family_weights)
    wanted = families[division_of_department[:, None], _few(rng, 0.6, (sizes.departments, 7), 9)]
    roles_of_department = np.empty_like(wanted)
    for family in range(sizes.families):
        members, here = np.flatnonzero(family_of_role == family), wanted == family
        weights = role_weights[members] / role_weights[members].sum()
        roles_of_department[here] = rng.choice(members, size=int(here.sum()), p=weights)
    posts = np.column_stack([_few(rng, 0.26, sizes.managers, 7), _few(rng, 0.34, sizes.managers, 7)])
    post = posts[manager, _few(rng, 0.79, len(manager), 2)]
    role = roles_of_department[department_of_manager[manager], post]
    _stray(rng, role, 0.009, role_weights)
    _place_unused(rng, role, family_of_role)
    title = title_of_role[role]
    _stray(rng, title, 0.017, title_weights)
    return role, title, family_of_title[title]


def _few(rng: np.random.Generator, p: float, shape: int | tuple[int, int], size: int) -> IntArray:
    """Draw small numbers 0..size-1, each less likely than the one before by the factor 1 - p."""
    return np.minimum(rng.geometric(p, size=shape) - 1, size - 1)


def _place_unused(rng: np.random.Generator, role: IntArray, family_of_role: IntArray) -> None:
    """Give every unused role a row, if possible one whose role is of the same family."""
    unused = np.setdiff1d(np.arange(len(family_of_role)), role)
    unused = unused[np.argsort(family_of_role[unused], kind="stable")]
    spare = repeated(rng, role)
    families = family_of_role[role[spare]]
    taken = np.zeros(len(spare), dtype=bool)
    for value in unused:
        fits = ~taken & (families == family_of_role[value])
        place = int(np.argmax(fits)) if fits.any() else int(np.argmin(taken))
        taken[place] = True
        role[spare[place]] = value


def _resources(rng: np.random.Generator, sizes: _Sizes, department: IntArray, family: IntArray) -> IntArray:
    """Return each row's resource: one of the department's, of the role family's, or of everybody's."""
    n_rows = len(department)
    weights = zipf(sizes.resources, 0.75, 1.26)
    pools: list[IntArray] = []
    for groups, group, width in ((sizes.departments, department, 24), (sizes.families, family, 130)):
        pool = rng.choice(sizes.resources, size=(groups, width), p=weights)
        pools.append(pool[group, rng.choice(width, size=n_rows, p=zipf(width, 0.9))])
    everybody = rng.choice(sizes.resources, size=n_rows, p=zipf(sizes.resources, 0.83, 37.0))
    kind = rng.random(n_rows)
    resource = np.where(kind < 0.637, pools[0], np.where(kind < 0.945, pools[1], everybody))
    unused = np.setdiff1d(np.arange(sizes.resources), resource)
    resource[repeated(rng, resource)[: len(unused)]] = unused
    return resource


def _numbered(rng: np.random.Generator, codes: IntArray) -> Array:
    """Return values as numbers in random order, so that common ones are not adjacent in the design matrix."""
    size = int(codes.max()) + 1
    return (1 + rng.permutation(3 * size)[:size])[codes].astype(np.float64)


def _granted(rng: np.random.Generator, codes: Mapping[str, IntArray]) -> IntArray:
    """Return whether access is granted, depending on resource, manager, department, and chance."""
    merit = _CHANCE * rng.logistic(size=len(codes["RESOURCE"]))
    for name, weight in _EFFECTS.items():
        uses = np.bincount(codes[name])
        effect = (rng.standard_normal(len(uses)) / np.sqrt(1 + uses / _COMMON))[codes[name]]
        merit += weight * (effect - effect.mean()) / effect.std()
    denied = round(_DENIED * len(merit))
    return by_rank(merit, np.array([denied, len(merit) - denied]))

"""All families of codes, in the order of the catalogue."""

from __future__ import annotations

from erasurehead.codes.catalogue_row import Family
from erasurehead.codes.coin_flips import bernoulli, regularised_bernoulli, stochastic_block
from erasurehead.codes.communication_efficient import communication_efficient_cyclic, communication_efficient_groups
from erasurehead.codes.cyclic import cyclic_repetition
from erasurehead.codes.designs import block_design
from erasurehead.codes.difference_sets import biquadratic, paley, twin_primes
from erasurehead.codes.draco import draco_cyclic, draco_repetition
from erasurehead.codes.edges import edge_code, graph_code
from erasurehead.codes.expanders import expander, margulis, regular
from erasurehead.codes.heterogeneous import (
    heterogeneous_balanced,
    heterogeneous_exclusive,
    heterogeneous_held,
    heterogeneous_staircase,
)
from erasurehead.codes.mds import complex_cyclic_mds, cyclic_mds, exact_cyclic
from erasurehead.codes.nearest_design import design_for
from erasurehead.codes.own_matrix import custom
from erasurehead.codes.planes import affine_plane, projective_plane
from erasurehead.codes.polynomial import reed_solomon
from erasurehead.codes.product import kronecker, refine
from erasurehead.codes.repetition import fractional_repetition, uncoded
from erasurehead.codes.several_messages import multi_message, nested, partial_stragglers
from erasurehead.codes.soft_designs import soft_design
from erasurehead.codes.stochastic import batched_coupons, stochastic_gradient
from erasurehead.codes.worker_classes import binary_repetition

_TRIANGLE = ((0, 1), (1, 2), (0, 2))
_CHANCES = (0.05, 0.1, 0.1, 0.2, 0.4)

FAMILIES: tuple[Family, ...] = (
    Family(uncoded, "approximate", lambda: uncoded(12)),
    Family(fractional_repetition, "exact", lambda: fractional_repetition(12, load=3)),
    Family(binary_repetition, "exact", lambda: binary_repetition(11, stragglers=3)),
    Family(cyclic_repetition, "exact", lambda: cyclic_repetition(12, stragglers=2)),
    Family(cyclic_mds, "exact", lambda: cyclic_mds(12, stragglers=3)),
    Family(complex_cyclic_mds, "exact", lambda: complex_cyclic_mds(12, stragglers=2)),
    Family(exact_cyclic, "exact", lambda: exact_cyclic(12, stragglers=2)),
    Family(reed_solomon, "exact", lambda: reed_solomon(10, load=2, n_tasks=5)),
    Family(partial_stragglers, "depends", lambda: partial_stragglers(fractional_repetition(12, load=3), slowness=2)),
    Family(nested, "exact", lambda: nested(8, stragglers=2)),
    Family(multi_message, "exact", lambda: multi_message(12, load=3)),
    Family(communication_efficient_groups, "exact", lambda: communication_efficient_groups(12, load=4, n_pieces=2)),
    Family(
        communication_efficient_cyclic, "exact", lambda: communication_efficient_cyclic(10, n_pieces=2, stragglers=2)
    ),
    Family(batched_coupons, "depends", lambda: batched_coupons(24, load=6)),
    Family(draco_repetition, "exact", lambda: draco_repetition(12, corrupted=1)),
    Family(draco_cyclic, "exact", lambda: draco_cyclic(9, corrupted=2)),
    Family(regular, "approximate", lambda: regular(30, load=4)),
    Family(expander, "approximate", lambda: expander(30, load=4)),
    Family(margulis, "approximate", lambda: margulis(5)),
    Family(graph_code, "approximate", lambda: graph_code(30, replication=3)),
    Family(edge_code, "approximate", lambda: edge_code(_TRIANGLE)),
    Family(bernoulli, "approximate", lambda: bernoulli(30, load=5)),
    Family(regularised_bernoulli, "approximate", lambda: regularised_bernoulli(30, load=3)),
    Family(stochastic_block, "approximate", lambda: stochastic_block(30, block=5, within=0.8, between=0.04)),
    Family(projective_plane, "approximate", lambda: projective_plane(3)),
    Family(affine_plane, "approximate", lambda: affine_plane(4)),
    Family(paley, "approximate", lambda: paley(11)),
    Family(biquadratic, "approximate", lambda: biquadratic(37)),
    Family(twin_primes, "approximate", lambda: twin_primes(3)),
    Family(block_design, "approximate", lambda: block_design(_TRIANGLE)),
    Family(design_for, "approximate", lambda: design_for(30, load=5)),
    Family(soft_design, "approximate", lambda: soft_design(24, load=6, density=0.35)),
    Family(stochastic_gradient, "approximate", lambda: stochastic_gradient(20, replication=3, straggling=0.2)),
    Family(heterogeneous_staircase, "approximate", lambda: heterogeneous_staircase(_CHANCES)),
    Family(heterogeneous_exclusive, "approximate", lambda: heterogeneous_exclusive(_CHANCES)),
    Family(heterogeneous_held, "approximate", lambda: heterogeneous_held(_CHANCES, [[0, 1], [1, 2], [3, 4, 0]])),
    Family(heterogeneous_balanced, "approximate", lambda: heterogeneous_balanced(_CHANCES, load=2)),
    Family(kronecker, "depends", lambda: kronecker(projective_plane(2), block_design(_TRIANGLE))),
    Family(refine, "depends", lambda: refine(cyclic_mds(6, stragglers=3), n_tasks=15)),
    Family(custom, "depends", lambda: custom([[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])),
)

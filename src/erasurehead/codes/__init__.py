"""Who computes what: gradient codes from the literature, one file per family; a code is immutable data.

The catalogue (`docs/codes.md`) lists the codes that are here, and published ones that are not.
"""

from erasurehead.codes.base import GradientCode as GradientCode
from erasurehead.codes.bernoulli import bernoulli as bernoulli
from erasurehead.codes.bernoulli import regularised_bernoulli as regularised_bernoulli
from erasurehead.codes.bernoulli import stochastic_block as stochastic_block
from erasurehead.codes.communication_efficient import communication_efficient_cyclic as communication_efficient_cyclic
from erasurehead.codes.communication_efficient import communication_efficient_groups as communication_efficient_groups
from erasurehead.codes.custom_code import custom as custom
from erasurehead.codes.cyclic import complex_cyclic_mds as complex_cyclic_mds
from erasurehead.codes.cyclic import cyclic_mds as cyclic_mds
from erasurehead.codes.cyclic import cyclic_repetition as cyclic_repetition
from erasurehead.codes.cyclic import exact_cyclic as exact_cyclic
from erasurehead.codes.designs import affine_plane as affine_plane
from erasurehead.codes.designs import biquadratic as biquadratic
from erasurehead.codes.designs import block_design as block_design
from erasurehead.codes.designs import design_for as design_for
from erasurehead.codes.designs import paley as paley
from erasurehead.codes.designs import projective_plane as projective_plane
from erasurehead.codes.designs import twin_primes as twin_primes
from erasurehead.codes.draco import draco_cyclic as draco_cyclic
from erasurehead.codes.draco import draco_repetition as draco_repetition
from erasurehead.codes.expanders import expander as expander
from erasurehead.codes.expanders import margulis as margulis
from erasurehead.codes.expanders import regular as regular
from erasurehead.codes.families import Family as Family
from erasurehead.codes.graph_codes import edge_code as edge_code
from erasurehead.codes.graph_codes import graph_code as graph_code
from erasurehead.codes.heterogeneous import heterogeneous_balanced as heterogeneous_balanced
from erasurehead.codes.heterogeneous import heterogeneous_exclusive as heterogeneous_exclusive
from erasurehead.codes.heterogeneous import heterogeneous_held as heterogeneous_held
from erasurehead.codes.heterogeneous import heterogeneous_staircase as heterogeneous_staircase
from erasurehead.codes.product import kronecker as kronecker
from erasurehead.codes.product import refine as refine
from erasurehead.codes.reed_solomon import reed_solomon as reed_solomon
from erasurehead.codes.registry import build as build
from erasurehead.codes.registry import catalogue as catalogue
from erasurehead.codes.registry import describe as describe
from erasurehead.codes.registry import family as family
from erasurehead.codes.repetition import binary_repetition as binary_repetition
from erasurehead.codes.repetition import fractional_repetition as fractional_repetition
from erasurehead.codes.repetition import uncoded as uncoded
from erasurehead.codes.several_messages import multi_message as multi_message
from erasurehead.codes.several_messages import nested as nested
from erasurehead.codes.several_messages import partial_stragglers as partial_stragglers
from erasurehead.codes.soft_designs import soft_design as soft_design
from erasurehead.codes.spectrum import Spectrum as Spectrum
from erasurehead.codes.stochastic import batched_coupons as batched_coupons
from erasurehead.codes.stochastic import stochastic_gradient as stochastic_gradient
from erasurehead.codes.transforms import by_task as by_task
from erasurehead.codes.transforms import resized as resized
from erasurehead.codes.transforms import shortened as shortened

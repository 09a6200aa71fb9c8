"""Who computes what: every published gradient code, one file a family; a code is plain immutable data."""

from erasurehead.codes.base import GradientCode as GradientCode
from erasurehead.codes.cyclic import cyclic_repetition as cyclic_repetition
from erasurehead.codes.repetition import fractional_repetition as fractional_repetition
from erasurehead.codes.repetition import uncoded as uncoded

"""When to stop and what the optimizer sees: wait rules, aggregations, and the named schemes of the papers."""

from erasurehead.schemes.aggregation import Aggregation as Aggregation
from erasurehead.schemes.aggregation import ByCoverage as ByCoverage
from erasurehead.schemes.aggregation import ByExpectation as ByExpectation
from erasurehead.schemes.aggregation import LateMessage as LateMessage
from erasurehead.schemes.aggregation import Plain as Plain
from erasurehead.schemes.aggregation import Vectors as Vectors
from erasurehead.schemes.asynchronous import Asynchronous as Asynchronous
from erasurehead.schemes.incremental import IncrementalAggregated as IncrementalAggregated
from erasurehead.schemes.named import Scheme as Scheme
from erasurehead.schemes.named import adaptive as adaptive
from erasurehead.schemes.named import asynchronous as asynchronous
from erasurehead.schemes.named import custom as custom
from erasurehead.schemes.named import erasurehead as erasurehead
from erasurehead.schemes.named import exact as exact
from erasurehead.schemes.named import ignore_stragglers as ignore_stragglers
from erasurehead.schemes.named import piag as piag
from erasurehead.schemes.named import rennala as rennala
from erasurehead.schemes.named import ringmaster as ringmaster
from erasurehead.schemes.named import uncoded as uncoded
from erasurehead.schemes.recorded import RecordedArrival as RecordedArrival
from erasurehead.schemes.recorded import RecordedStep as RecordedStep

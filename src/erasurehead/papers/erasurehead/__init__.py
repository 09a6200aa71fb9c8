"""The ErasureHead paper (Wang, Charles, Papailiopoulos, 2019): its experiments and its theory."""

from erasurehead.papers.erasurehead.reproduction import EXHIBITS as EXHIBITS
from erasurehead.papers.erasurehead.reproduction import Reproduction as Reproduction
from erasurehead.papers.erasurehead.reproduction import reproduce as reproduce
from erasurehead.papers.erasurehead.reproduction import select as select

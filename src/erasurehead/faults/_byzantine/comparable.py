"""Whether a code and a wait rule ever leave messages to compare: checked before a run starts."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import BoolArray
from erasurehead._internal.factors import rank_of
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.decoding._inspection import units_of
from erasurehead.errors import InvalidArgument
from erasurehead.schemes.wait_rules import WaitRule

_WORK = 3e8  # approximate number of multiplications that the drawn rounds may cost
_MOST_ROUNDS = 48
_SCALES = (1.0, 1e-3, 1e3)  # seconds: under a rule with a deadline, all, some or no workers then arrive


def check_comparable(decoder: Decoder, rule: WaitRule) -> None:
    """Raise if a code and a wait rule never leave verification anything to compare.

    Rounds are drawn in which workers answer in random order, and the rule is applied to them.

    Arguments:
        decoder: the decoder, which holds the code.
        rule: when to stop waiting.

    Raises:
        InvalidArgument: if in none of these rounds any two messages could be compared when the rule stopped.
    """
    code = decoder.code
    if rule.remembers:  # what it leaves to compare cannot be judged from single rounds
        return
    if any(comparable(code, arrived) for scale in _SCALES for arrived in _rounds(decoder, rule, scale)):
        return
    enough = comparable(code, np.ones(code.n_messages, dtype=bool))
    remedy = (
        "wait for more than decoding takes: first(...) of more workers or, with replicas, the rule & confirmed(2)"
        if enough
        else "use a code whose messages say something about each other, such as fractional_repetition or draco_cyclic"
    )
    clause = (
        f"{code} with the rule {rule} leaves none that say anything about each other, so that no lie would be found"
    )
    raise InvalidArgument(
        "fault_policy.verify",
        "must have messages to compare",
        True,
        remedy,
        sentence=f"fault_policy.verify (--verify) must have messages to compare, but {clause}; {remedy}.",
    )


def comparable(code: GradientCode, arrived: BoolArray) -> bool:
    """Return whether any of the arrived messages can be compared with other workers' messages.

    Arguments:
        code: the code.
        arrived: whether each message has arrived, shape (n_messages,).
    """
    for unit in units_of(code):
        here = np.array(unit.messages, dtype=np.int64)
        here = here[arrived[here]]
        if len(np.unique(code.owner[here])) < 2:
            continue
        if unit.equal:
            return True
        rows = code.encoding[here]
        columns = len(np.unique(rows.indices))
        if len(here) > columns or rank_of(rows.toarray()) < len(here):
            return True
    return False


def _rounds(decoder: Decoder, rule: WaitRule, scale: float) -> BoolArray:
    """Return which messages have arrived when the rule stops, in random rounds, shape (rounds, n_messages)."""
    code = decoder.code
    rounds = int(min(_MOST_ROUNDS, max(4, _WORK / (code.n_messages**3 + 1))))
    times = scale * stream("comparable", 0).exponential(size=(rounds, code.n_workers))[:, code.owner]
    for worker in np.flatnonzero(code.messages_per_worker > 1).tolist():
        mine = code.messages_of(worker)
        times[:, mine] *= np.arange(1, len(mine) + 1) / len(mine)
    stop = rule.stop_times(times, decoder)
    return times[np.isfinite(stop)] <= stop[np.isfinite(stop), None]

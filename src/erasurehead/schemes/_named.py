"""The named schemes of the papers, from ErasureHead to Ringmaster: a code, its decoder, a wait rule, an aggregation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal, TypeAlias

from erasurehead import codes, decoding
from erasurehead._internal.shares import check_speeds
from erasurehead.codes import GradientCode, _cyclic, _nested, _repetition, _several_messages, _transforms as transforms
from erasurehead.codes._product import refine
from erasurehead.codes._transforms import resized
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.errors import check_count, check_size, invalid
from erasurehead.optimizers._order_kinds import EARLY, NEWTON
from erasurehead.schemes import wait_rules
from erasurehead.schemes._aggregation import rescaling
from erasurehead.schemes._asynchronous import GREATEST_AGE, Asynchronous
from erasurehead.schemes._incremental import IncrementalAggregated
from erasurehead.schemes._ringleader import GradientTable, Ringleader
from erasurehead.schemes._scheme import Reform, Scheme, custom
from erasurehead.schemes.wait_rules import _early, _few, _lateness, _worker_counts
from erasurehead.schemes.wait_rules._base import WaitRule, scaled_count

GivenSpeeds: TypeAlias = Sequence[float] | Literal["measured"] | None
"""How fast each worker is, in any unit; `"measured"`: alike, until it is known better; None: alike."""


def uncoded(n_workers: int, n_tasks: int | None = None, speeds: GivenSpeeds = None) -> Scheme:
    """Return plain distributed gradient descent: every worker is waited for.

    Arguments:
        n_workers: number of workers.
        n_tasks: number of tasks, at least n_workers; by default one per worker, or 16 of the average one with `speeds`.
        speeds: how fast each worker is, in any unit: tasks are dealt out in proportion, so that all are through at the
            same time. Where some workers are slow for good, this is less work and less waiting than any code. With
            `"measured"` they begin alike, and are dealt out again whenever the speeds of the last rounds say that it
            pays: see docs/which-redundancy.md.
    """
    if speeds is None:
        return custom(codes.uncoded(n_workers, n_tasks), wait_rules.decodable(), name="uncoded")
    return _by_speed(_uncoded_of, "uncoded", n_workers, n_tasks, speeds)


def ignore_stragglers(n_workers: int, wait_for: int, rescale: str = "coverage") -> Scheme:
    """Return uncoded training that waits for the first `wait_for` workers and scales up what they sent.

    The baseline of Tandon et al. (2017), who divide by the samples seen; also known as backup workers (Chen et al.,
    2016), and as m-synchronous SGD, which is optimal in time up to logarithms where workers' times are random and their
    data alike (arXiv:2602.03802).

    Arguments:
        n_workers: number of workers.
        wait_for: how many arrivals to wait for, in 1..n_workers.
        rescale: `"coverage"`, `"expectation"` (here the same, unless workers die) or `"none"`.
    """
    return _first_arrivals(
        "ignore_stragglers", codes.uncoded(n_workers), check_count("wait_for", wait_for, 1, n_workers), rescale
    )


def exact(n_workers: int, load: int, code: str = "repetition", seed: int = 0, speeds: GivenSpeeds = None) -> Scheme:
    """Return exact gradient coding: wait until the full gradient can be decoded (Tandon et al., 2017).

    Arguments:
        n_workers: number of workers.
        load: tasks per worker; any load - 1 stragglers are tolerated, often more.
        code: `"repetition"` (fractional repetition) or `"cyclic"` (`exact_cyclic`: the real cyclic MDS code where
            there is one that float64 bears, else Tandon's cyclic repetition, else a Reed-Solomon code).
        seed: of the random draws of the latter.
        speeds: how fast each worker is, in any unit, for the code `"repetition"`: `load` classes of workers, equally
            fast in sum, each share out all tasks by speed (`codes.build("binary_repetition", ...)`), and the first
            whole class is enough; `"measured"` as for `uncoded`.
    """
    if speeds is not None and code == "cyclic":
        raise invalid("speeds", "are for the code 'repetition' alone", speeds, "leave out code='cyclic'")
    if code == "repetition" and speeds is not None:
        make = partial(_classes_of, check_count("load", load, 1, n_workers))
        return _by_speed(make, "exact", n_workers, None, speeds)
    if code == "repetition":
        built = codes.fractional_repetition(n_workers, load)
    elif code == "cyclic":
        built = _cyclic.exact_cyclic(n_workers, load - 1, seed=seed)
    else:
        raise invalid("code", "must be 'repetition' or 'cyclic'", code)
    return custom(built, wait_rules.decodable(), name=f"exact {code}" if code == "cyclic" else "exact")


_Made: TypeAlias = Callable[[Sequence[float], int | None, int | None], GradientCode]
"""Makes the code of workers of some speeds, given its number of tasks, and of those in a unit of work, if known."""


def _uncoded_of(speeds: Sequence[float], n_tasks: int | None, pieces: int | None) -> GradientCode:
    return codes.uncoded(len(speeds), n_tasks, speeds, pieces)


def _classes_of(load: int, speeds: Sequence[float], n_tasks: int | None, pieces: int | None) -> GradientCode:
    return _repetition.binary_repetition(len(speeds), min(load, len(speeds)) - 1, n_tasks, speeds, pieces)


def _by_speed(make: _Made, name: str, n_workers: int, n_tasks: int | None, speeds: Sequence[float] | str) -> Scheme:
    """Return the scheme that waits for all tasks of a code whose workers have them by speed."""
    measured = isinstance(speeds, str)
    if measured and speeds != "measured":
        raise invalid("speeds", "must be numbers, or 'measured'", speeds, "such as [1, 2, 4, 4]")
    begin = [1.0] * check_size("n_workers", n_workers) if measured else check_speeds(speeds, n_workers).tolist()
    first = make(begin, n_tasks, None)
    return _dealt_out(make, name, measured, first.n_tasks, round(1.0 / first.task_work), begin)


def _dealt_out(make: _Made, name: str, measured: bool, n_tasks: int, pieces: int, speeds: Sequence[float]) -> Scheme:
    scheme = custom(make(speeds, n_tasks, pieces), wait_rules.decodable(), name=name)
    return replace(scheme, by_speed=partial(_dealt_out, make, name, measured, n_tasks, pieces), measured=measured)


def compute_once(n_workers: int, load: int | None = None, pieces: int = 6, sums: bool = False) -> Scheme:
    """Return exact training on redundant data that computes each task once, unless somebody is late.

    Each worker holds its own share of the data and those of `load - 1` others, so that any `load - 1` deaths are
    survived at once. It first computes its own share, in `pieces` tasks, each of which is sent as soon as it is
    finished; the step ends when every task has come from somebody. Who is through repeats tasks of others that are
    late, so a step takes no more work than uncoded training where nobody is. Where the same workers are slow for
    several steps, shares go by their speeds. It pays where time grows with the work; where each message has a delay of
    its own, `exact` is sooner.

    Arguments:
        n_workers: number of workers.
        load: shares of the data that each worker holds, at most `n_workers`: what redundancy costs is memory, and
            time to load; by default 3, or `n_workers` if there are fewer workers than that.
        pieces: tasks of a share, each a message: with more of them, less work is lost, and more bytes are sent.
        sums: whether messages only report that a task is finished, and each worker then sends one vector, once every
            task is finished somewhere: the sum over the tasks that it is named for. That is a sixth of the bytes, or
            less, for six pieces, and one more round trip a step. For large dense models.
    """
    load = _load_of(load, n_workers)
    pieces = check_size("pieces", pieces)
    code = _several_messages.multi_message(n_workers, load * pieces, n_workers * pieces, pieces)
    return _once(bool(sums), custom(code, wait_rules.decodable(), name="compute_once"))


def _load_of(load: int | None, n_workers: int) -> int:
    n_workers = check_size("n_workers", n_workers)
    return min(_LOAD, n_workers) if load is None else check_count("load", load, 1, n_workers)


def _once(sums: bool, scheme: Scheme) -> Scheme:
    again = scheme.reform
    assert again is not None
    return replace(
        scheme, until_newer=True, turns=True, sums=sums, reform=partial(_made_again, partial(_once, sums), again)
    )


def nested(n_workers: int, load: int | None = None, seed: int = 0) -> Scheme:
    """Return exact training that computes as much redundantly as the stragglers of each step require, and no more.

    Each worker holds `load` tasks, takes one after the other, and reports each of them in a few bytes. As soon as all
    workers but s have finished s + 1 tasks, for some s, the coordinator names that s, and each of those workers sends
    one message: that of a cyclic code which tolerates s stragglers. So a step ends when the best of these codes would
    have ended it, and a round trip later: with nobody slow, after one task; with two workers that do not answer, after
    three. It pays where the number of stragglers, in particular of dead workers, changes from step to step. (Massny,
    Hofmeister, Egger, Bitar and Wachter-Zeh, "Nested gradient codes", arXiv:2212.08580.)

    Injected delays are drawn once a step, as for one message that grows: what a worker is asked for costs none anew.

    Arguments:
        n_workers: number of workers, and of tasks.
        load: tasks that each worker holds, and computes if need be, at most `n_workers`: one more than there may be
            stragglers; by default 3, or `n_workers` if there are fewer workers than that.
        seed: of the levels whose coefficients are drawn.
    """
    load = _load_of(load, n_workers)
    return _reporting(custom(_nested.nested(n_workers, load - 1, seed=seed), wait_rules.decodable(), name="nested"))


def _reporting(scheme: Scheme) -> Scheme:
    again, code = scheme.reform, scheme.code
    assert again is not None
    assert code.structure.levels is not None
    decoder = Alternatives(code, code.structure.levels, decoding.make_decoder, inner=None)
    return replace(scheme, decoder=decoder, until_newer=True, reform=partial(_reporting_again, again))


def erasurehead(
    n_workers: int, load: int, wait_for: int | float, rescale: str = "coverage", n_tasks: int | None = None
) -> Scheme:
    """Return ErasureHead (Algorithms 1 and 2): stop after some arrivals, or as soon as every group is in.

    The paper's algorithm takes the decoded sum as it is (`rescale="none"`, equations (1)-(2)); its analysis divides by
    1 - p (`"expectation"`). Dividing by the fraction that did arrive (`"coverage"`) has the smaller variance, and is
    the default.

    Arguments:
        n_workers: number of workers (k in the paper).
        load: tasks per worker (c).
        wait_for: arrivals to wait for, in 1..n_workers, or a fraction in (0, 1) of the workers (delta).
        rescale: `"coverage"`, `"expectation"` or `"none"`.
        n_tasks: number of tasks (n in the paper); by default one per worker.
    """
    code = codes.fractional_repetition(n_workers, load, n_tasks)
    if isinstance(wait_for, float) and 0 < wait_for < 1:
        wait_for = _worker_counts.Fraction(wait_for).workers(code)
    return _first_arrivals("erasurehead", code, check_count("wait_for", wait_for, 1, n_workers), rescale)


def asynchronous(
    n_workers: int,
    n_tasks: int | None = None,
    adaptive: bool = True,
    greatest_age: int = GREATEST_AGE,
    after_own_step: bool = True,
    rescaled: bool = False,
) -> Scheme:
    """Return asynchronous training: the model moves at every message, whatever model its gradient was computed at.

    No worker ever waits for another. It needs `late="carry"`, so that late workers finish their work. Steps are many
    and short: one pass over the data takes as many steps as there are workers.

    Arguments:
        n_workers: number of workers.
        n_tasks: number of tasks, at least n_workers; by default one per worker.
        adaptive: whether older messages are given shorter steps, so that one step size suits all delays: see
            `Asynchronous`.
        greatest_age: the greatest age of a message, in steps; older ones are dropped.
        after_own_step: whether a worker that has answered goes on from the model that its message has moved, as
            published; else it goes on at once, from the newest model there is when it is done.
        rescaled: whether steps are shorter for faster workers, in place of `adaptive`: rescaled ASGD, which converges
            to the optimum also where tasks differ. The step size is that of the slowest worker, and not shortened by
            the age of its messages: it must be small enough for their delays.
    """
    code = codes.uncoded(n_workers, n_tasks)
    aggregation = Asynchronous(adaptive and not rescaled, greatest_age, after_own_step, rescaled)
    scheme = custom(code, _lateness.Arrivals(1), aggregation, "asynchronous")
    return replace(scheme, late="carry")


def adaptive(
    n_workers: int, load: int | None = None, n_tasks: int | None = None, multi_message: bool = False
) -> Scheme:
    """Return the scheme of `optimizers.QuasiNewton`: few arrivals first, then whole gradients from the fastest workers.

    The first steps wait for as many arrivals as the optimizer asks for, unless old work is dropped
    when it is some rounds old. The others wait until the full gradient can be decoded, as a method that judges its own
    steps and its convergence requires. Each task is held by several workers, and the fastest of them is enough.

    Arguments:
        n_workers: number of workers.
        load: tasks per worker; by default 3, or `n_workers` if there are fewer workers than that.
        n_tasks: number of tasks; by default one per worker.
        multi_message: whether workers send the gradient of each task as soon as it is finished from the first step on
            (`multi_message`), rather than the sum of all their tasks at the end. The work of stragglers then
            counts as far as it has come, and an early step costs one task. It pays if delays grow with the load, and
            costs if each message has a delay of its own, as there are `load` times as many. Without it, training
            finds out which of both is the case, and changes to a message per task where it pays; and if a whole group
            of workers with the same data stays slow, the data move so that others can help (docs/which-redundancy.md).
    """
    load = _load_of(None, n_workers) if load is None else load
    make = _several_messages.multi_message if multi_message else codes.fractional_repetition
    code = make(n_workers, load, n_tasks)
    return _self_setting(custom(code, wait_rules.decodable(), name="adaptive"))


def _self_setting(scheme: Scheme) -> Scheme:
    """Return a scheme with a choice: of orders which few arrivals answer, and of a message per task.

    It has them whatever it is resized to.
    """
    again, code = scheme.reform, scheme.code
    if again is None or not code.replicas:
        return scheme
    sums = code.one_message_each and 1 < code.load <= _MOST_MESSAGES
    rules = {**scheme.rules, EARLY: _early.Early(), NEWTON: _few.Few()}
    scheme = replace(scheme, rules=rules, reform=partial(_made_again, _self_setting, again))
    if not sums:
        return scheme
    return replace(scheme, by_task=decoding.make_decoder(transforms.by_task(code)), finer=partial(_in_pieces, scheme))


def _in_pieces(scheme: Scheme, pieces: int) -> Scheme:
    """Return a scheme of sums over finer tasks, which workers send one by one where that pays, in the order that does.

    Arguments:
        scheme: the scheme.
        pieces: into how many each of its tasks is cut.
    """
    assert scheme.reform is not None
    whole = scheme.code
    code = replace(refine(whole, pieces * whole.n_tasks), task_work=whole.task_work / pieces, cut=pieces)
    n_workers, load = whole.n_workers, whole.load
    movable = whole.n_tasks == n_workers > load
    return replace(
        scheme,
        decoder=decoding.make_decoder(code),
        by_task=decoding.make_decoder(transforms.by_task(code)),
        turns=True,
        around=partial(_around, scheme, n_workers, load, pieces) if movable else None,
        reform=partial(_finer_again, scheme.reform, pieces),
    )


@lru_cache(maxsize=4)
def _around(scheme: Scheme, n_workers: int, load: int, pieces: int) -> Scheme:
    """Return what `compute_once` has, with the rules of a scheme for the orders that its optimizer may ask."""
    once = compute_once(n_workers, load, pieces)
    return replace(once, name=scheme.name, rules=scheme.rules)


def piag(
    n_workers: int,
    wait_for: int = 1,
    load: int = 1,
    n_tasks: int | None = None,
    max_age: int | None = None,
    adaptive: bool = True,
) -> Scheme:
    """Return training with a memory of late results: PIAG, the proximal incremental aggregated gradient method.

    The first step waits until every task has been heard of. From then on a step is taken as soon as a few messages have
    come, be they late or not; tasks of which none has come count with their last known gradient. Nothing is ever left
    out, so that the method converges to the optimum where tasks differ and some workers are slow for good; how fast it
    does is limited by the oldest gradient: see `IncrementalAggregated`. Where late work is dropped, it is the same with
    the messages that come in time (as SAG with tasks for samples).

    Arguments:
        n_workers: number of workers.
        wait_for: messages of any age per step, at least 1.
        load: tasks per worker; with more than one, the fastest worker that holds a task speaks for it, and gradients
            are younger.
        n_tasks: number of tasks; by default one per worker.
        max_age: the greatest age of a remembered gradient, in steps, at least 1; older ones are waited for. By default
            twice the number of workers. Without a limit, a worker that is never among the first would never be heard
            again where late work is dropped.
        adaptive: whether steps are shortened by the age of the oldest gradient, so that one step size suits all delays.
    """
    code = codes.fractional_repetition(n_workers, load, n_tasks)
    wait_for = check_count("wait_for", wait_for, 1, n_workers)
    most = 2 * n_workers if max_age is None else check_count("max_age", max_age)
    rule = _lateness.Arrivals(wait_for) & _lateness.Heard() & _lateness.Aged(most)
    return _piag(code, rule, adaptive, most)


def _piag(code: GradientCode, rule: WaitRule, adaptive: bool, max_age: int) -> Scheme:
    scheme = custom(code, rule, IncrementalAggregated(code, adaptive, max_age), "piag")
    return replace(scheme, reform=partial(_piag_again, code, rule, adaptive, max_age))


def ringmaster(n_workers: int, threshold: int, n_tasks: int | None = None, after_own_step: bool = True) -> Scheme:
    """Return Ringmaster ASGD: asynchronous training that discards gradients of at least a given age.

    The model moves by a whole step at every message that is less than `threshold` steps old. With a threshold that
    suits noise and accuracy the method is optimal in time among asynchronous ones, whatever the workers' speeds
    (Maranjyan, Tyurin and Richtarik, "Ringmaster ASGD", ICML 2025, algorithm 4; with the late work `drop(R)`, R =
    threshold - 1, workers stop such computations, which is their algorithm 5). A worker's message is the gradient of
    its own tasks: where tasks differ, the method converges to a neighbourhood of the optimum.

    Arguments:
        n_workers: number of workers.
        threshold: the age, in steps, from which gradients are discarded, at least 1; with 1 only gradients at the
            newest model count.
        n_tasks: number of tasks, at least n_workers; by default one per worker.
        after_own_step: as for `asynchronous`.
    """
    check_count("threshold", threshold)
    code = codes.uncoded(n_workers, n_tasks)
    aggregation = Asynchronous(adapt=False, greatest_age=threshold - 1, after_own_step=after_own_step)
    return replace(custom(code, _lateness.Arrivals(1), aggregation, "ringmaster"), late="carry")


def ringleader(n_workers: int, n_tasks: int | None = None) -> Scheme:
    """Return Ringleader ASGD: asynchronous training on unequal data, that moves along gradients of all workers.

    A table is filled until every worker has sent a gradient. The model then moves along the sum of the table, and once
    more whenever a worker sends its first gradient since, which enters the table; other gradients are for the next
    table. No gradient is more than 2n - 2 steps old with n workers, and in time the method is optimal among
    asynchronous ones, whatever the workers' speeds and data (Maranjyan and Richtarik, arXiv:2509.22860; with gradients
    of all of a worker's samples, those that it would compute once more at the same model are left out). The scheme
    cannot be resized: dead workers must be replaced.

    Arguments:
        n_workers: number of workers.
        n_tasks: number of tasks, at least n_workers; by default one per worker.
    """
    scheme = custom(codes.uncoded(n_workers, n_tasks), GradientTable(), Ringleader(), "ringleader")
    return replace(scheme, late="carry", reform=None)


def rennala(n_workers: int, batch: int, messages: int = 1) -> Scheme:
    """Return Rennala SGD: each step takes the mean of the first gradients at the newest model, and discards older ones.

    Optimal in time among asynchronous methods for workers of fixed speeds (Tyurin and Richtarik, "Optimal time
    complexities of parallel stochastic optimization methods under a fixed computation model", NeurIPS 2023). There, a
    worker brings one stochastic gradient of a model after the other until there is a newer model; here it brings those
    of `messages` equal shares of its data, always in the same order, and then has no more to say. With one message it
    is `ignore_stragglers` under another name.

    Arguments:
        n_workers: number of workers.
        batch: gradients per step, in 1..n_workers * messages.
        messages: gradients that a worker can bring in a step.
    """
    n_tasks = n_workers * check_size("messages", messages)
    return _rennala(check_count("batch", batch, 1, n_tasks), n_tasks, n_workers)


def _rennala(batch: int, n_tasks: int, n_workers: int, held: Sequence[int] | None = None) -> Scheme:
    code = _several_messages.multi_message(n_workers, -(-n_tasks // n_workers), n_tasks)
    rule = wait_rules.parse(f"residual_below({n_tasks - batch})")
    scheme = custom(code, rule, rescaling("coverage", code, batch), "rennala")
    return replace(scheme, reform=partial(_rennala, batch, n_tasks), until_newer=True)


_MOST_MESSAGES = 8
"""Most tasks of a worker that it may be asked to send one by one: each message has a cost of its own."""

_LOAD = 3
"""Default number of workers per task. Each round then takes the time of the fastest of three. With exponential delays
of mean 1 s a round of 30 workers takes 0.5 s with three, 2 s with one, and 0.4 s with five."""


def _first_arrivals(name: str, code: GradientCode, arrivals: int, rescale: str) -> Scheme:
    rule = wait_rules.first(arrivals) | wait_rules.decodable()
    scheme = custom(code, rule, rescaling(rescale, code, arrivals), name)
    return replace(scheme, reform=partial(_first_arrivals_again, name, code, arrivals, rescale))


# How schemes are made again for other workers: functions of the module, so that schemes can be pickled.


def _made_again(make: Callable[[Scheme], Scheme], again: Reform, n_workers: int, held: Sequence[int] | None) -> Scheme:
    return make(again(n_workers, held))


def _finer_again(again: Reform, pieces: int, n_workers: int, held: Sequence[int] | None) -> Scheme:
    scheme = again(n_workers, None if held is None else held[::pieces])
    return scheme if scheme.finer is None else scheme.finer(pieces)


def _reporting_again(again: Reform, n_workers: int, held: Sequence[int] | None) -> Scheme:
    return _reporting(again(n_workers, held))


def _piag_again(
    code: GradientCode, rule: WaitRule, adaptive: bool, max_age: int, n_workers: int, held: Sequence[int] | None
) -> Scheme:
    return _piag(resized(code, n_workers, held), rule.for_workers(code.n_workers, n_workers), adaptive, max_age)


def _first_arrivals_again(
    name: str, code: GradientCode, arrivals: int, rescale: str, n_workers: int, held: Sequence[int] | None
) -> Scheme:
    scaled = scaled_count(arrivals, code.n_workers, n_workers)
    return _first_arrivals(name, resized(code, n_workers, held), scaled, rescale)

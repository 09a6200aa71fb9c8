"""Who gets which samples: each of them once, whatever the order of messages, and those of the dead again."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.arrays import Array
from erasurehead.torch._handouts import Handouts
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort


class Wire(MemberPort):
    """A rank's port into a net whose messages arrive when they are delivered."""

    def __init__(self, rank: int, net: Net) -> None:
        self.rank, self.net = rank, net

    def now(self) -> float:
        return 0.0

    def send(self, to: int, head: Head, vector: Array | None = None) -> None:
        self.net.sent.setdefault((self.rank, to), deque()).append(Head.unpacked(head.packed()))

    def wake_at(self, when: float) -> None:
        pass

    def wake_script(self) -> None:
        pass


class Net:
    """Ranks that take samples of one data set after the other."""

    def __init__(self, size: int, gathers: int = 0) -> None:
        self.sent: dict[tuple[int, int], deque[Head]] = {}
        self.ranks = [Handouts(rank) for rank in range(size)]
        self.ports = [Wire(rank, self) for rank in range(size)]
        self.view(gathers, set(range(size)))

    def view(self, gathers: int, members: set[int]) -> None:
        for rank in members:
            self.ranks[rank].on_view(self.ports[rank], gathers, frozenset(members))

    def deliver(self, way: tuple[int, int]) -> None:
        sender, to = way
        self.ranks[to].on_message(self.ports[to], sender, self.sent[way].popleft())

    def deliver_all(self) -> None:
        while ways := [way for way, heads in self.sent.items() if heads]:
            self.deliver(ways[0])


@pytest.mark.slow
@given(size=st.integers(1, 5), total=st.integers(1, 60), count=st.integers(1, 9), data=st.data())
def test_an_epoch_is_each_sample_once_whatever_comes_when(
    size: int, total: int, count: int, data: st.DataObject
) -> None:
    net, got = Net(size, data.draw(st.integers(0, size - 1))), [Counter[int](), Counter[int]()]
    epoch = size * [0]
    asked: list[deque[int]] = [deque() for _ in range(size)]
    while min(epoch) < 2:
        ready = [rank for rank in range(size) if epoch[rank] < 2]
        ways = [way for way, heads in net.sent.items() if heads]
        steps = [("rank", rank) for rank in ready] + [("way", way) for way in ways]
        kind, what = data.draw(st.sampled_from(steps))
        if kind == "way":
            assert isinstance(what, tuple)
            net.deliver(what)
            continue
        assert isinstance(what, int)
        own, port = net.ranks[what], net.ports[what]
        while len(asked[what]) < 2:
            asked[what].append(own.ask(port, 0, epoch[what], total, count))
        if asked[what][0] in own.handed:
            question = asked[what].popleft()
            begin, end = own.handed.pop(question)
            got[epoch[what]].update(range(begin, end))
            if begin == end:
                own.give_back(port, 0)
                asked[what].clear()
                epoch[what] += 1
            else:
                assert end - begin <= count
                own.used(question)
        elif not ways:
            net.deliver_all()
    # an epoch is over where a rank has begun the next: what others still have of it, they have trained on
    for samples in got:
        assert all(samples[one] == 1 for one in range(total))


def take(net: Net, rank: int, epoch: int = 0, total: int = 100, count: int = 10, used: bool = True) -> tuple[int, int]:
    """Let a rank take a piece, all messages of which arrive."""
    question = net.ranks[rank].ask(net.ports[rank], 0, epoch, total, count)
    net.deliver_all()
    if used:
        net.ranks[rank].used(question)
    return net.ranks[rank].handed.pop(question)


def test_what_a_rank_that_is_gone_had_is_handed_out_again() -> None:
    net = Net(3)
    assert [take(net, rank, used=rank != 2) for rank in (1, 2, 1)] == [(0, 10), (10, 20), (20, 30)]
    net.view(0, {0, 1})
    assert take(net, 1, count=6) == (10, 16)
    assert take(net, 0) == (16, 20)
    assert take(net, 0) == (30, 40)


def test_who_gathers_next_goes_on_where_the_others_know_the_epoch_to_be() -> None:
    net = Net(3)
    assert [take(net, rank) for rank in (1, 2, 1)] == [(0, 10), (10, 20), (20, 30)]
    question = net.ranks[1].ask(net.ports[1], 0, 0, 100, 10)
    net.sent.clear()  # who gathered has died before it was asked
    net.view(2, {1, 2})
    net.deliver_all()
    assert net.ranks[1].handed.pop(question) == (30, 40)
    assert take(net, 2) == (40, 50)


def test_a_question_that_is_asked_twice_has_one_answer() -> None:
    net = Net(2)
    question = net.ranks[1].ask(net.ports[1], 0, 0, 100, 10)
    way = 1, 0
    net.sent[way].append(net.sent[way][0])
    net.deliver_all()
    assert net.ranks[1].handed == {question: (0, 10)}
    assert take(net, 0) == (10, 20)


def test_who_is_behind_has_nothing_left_of_an_epoch_after_which_another_was_begun() -> None:
    net = Net(2)
    take(net, 0, total=20)
    assert take(net, 1, epoch=1, total=20) == (0, 10)
    assert take(net, 0, epoch=0, total=20) == (0, 0)


def test_what_was_given_back_is_handed_out_again_and_what_nobody_has_trained_on_is_known() -> None:
    net = Net(2)
    take(net, 1)
    take(net, 1, used=False)
    assert net.ranks[0].stocks[0].missing == [(10, 20)]
    take(net, 0)
    net.ranks[1].give_back(net.ports[1], 0)
    net.deliver_all()
    assert net.ranks[0].stocks[0].missing == [(10, 20), (20, 30)]
    assert take(net, 0) == (10, 20)


def test_no_piece_of_one_sample_is_left_by_chance() -> None:
    net = Net(2)
    assert [take(net, rank, total=43, count=count) for rank, count in ((0, 22), (1, 20), (0, 22))] == [
        (0, 22),
        (22, 41),
        (41, 43),
    ]
    net = Net(2)
    take(net, 1, total=22, count=22, used=False)
    net.ranks[1].give_back(net.ports[1], 0)
    net.deliver_all()
    assert [take(net, 0, total=22, count=21) for _ in range(2)] == [(0, 20), (20, 22)]
    alone = Handouts(0)
    alone.on_view(None, 0, frozenset({0}))
    for piece in ((0, 21), (21, 22)):
        assert alone.handed.pop(alone.ask(None, 0, 0, 22, 21)) == piece


def test_data_sets_are_handed_out_each_by_itself() -> None:
    net = Net(2)
    questions = [net.ranks[1].ask(net.ports[1], stock, 0, 50, 10) for stock in (0, 1, 0)]
    net.deliver_all()
    assert [net.ranks[1].handed[one] for one in questions] == [(0, 10), (0, 10), (10, 20)]


def test_shares_follow_speeds_that_are_measured() -> None:
    net = Net(3)
    hands = net.ranks[0]

    def sizes(epoch: int) -> list[int]:
        found: list[int] = []
        for rank in range(3):
            question = net.ranks[rank].ask(net.ports[rank], 0, epoch, 1000, 60, measured=3)
            net.deliver_all()
            begin, end = net.ranks[rank].handed.pop(question)
            found.append(end - begin)
        return found

    assert sizes(0) == [20, 20, 20]
    for _ in range(12):
        for rank, seconds in ((0, 1.0), (1, 2.0), (2, 1.0)):
            hands.observe(rank, 20, seconds)
        hands.settle()
    assert sizes(1) == [24, 12, 24]


def test_heads_carry_what_is_asked_and_answered() -> None:
    for kind in (Kind.ASK, Kind.HAND):
        head = Head(kind, 2, 3, 2**40, 5, 6, 7.0, 8.0, 2**50, 10)
        assert Head.unpacked(head.packed()) == head

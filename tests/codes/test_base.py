"""The contract of a code: what is refused, what follows from the encoding, and that nothing can be changed."""

from __future__ import annotations

import operator
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from erasurehead.codes import GradientCode, fractional_repetition
from erasurehead.codes._communication_efficient import communication_efficient_groups
from erasurehead.codes._cyclic import cyclic_mds
from erasurehead.codes._nested import nested
from erasurehead.errors import InvalidArgument


def code_of(matrix: object, **changes: object) -> GradientCode:
    encoding = sparse.csr_array(np.array(matrix))
    arguments: dict[str, object] = {
        "name": "test",
        "parameters": {},
        "encoding": encoding,
        "owner": np.arange(encoding.shape[0]),
        "n_workers": encoding.shape[0],
        "n_tasks": encoding.shape[1],
    }
    return GradientCode(**(arguments | changes))


@pytest.mark.parametrize(
    ("matrix", "changes", "message"),
    [
        ([[1.0, 1j]], {}, "encoding must be real"),
        ([[1.0, np.nan]], {}, "encoding must be finite"),
        ([[1.0, np.inf]], {}, "encoding must be finite"),
        ([[1.0, 1.0]], {"n_tasks": 3}, r"encoding must have shape .* = \(1, 3\), got \(1, 2\)"),
        ([[1.0, 1.0]], {"n_pieces": 0}, "n_pieces must be at least 1, but it is 0"),
        ([[1.0, 1.0]], {"owner": np.array([1])}, r"owner must name workers 0..0, got 1"),
        ([[1.0], [1.0]], {"groups": np.array([0])}, "groups must have one entry for each of 2 messages"),
        ([[1.0], [1.0]], {"groups": np.array([0, 2])}, "groups must be numbered 0, 1, 2, ... without gaps"),
    ],
)
def test_what_is_no_code_is_refused(matrix: object, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        code_of(matrix, **changes)


def test_what_follows_from_the_encoding() -> None:
    code = code_of([[1, 0, 2, 0], [0, 0, 3, 4], [5, 0, 0, 0]], owner=np.array([0, 0, 1]), n_workers=2)
    assert code.loads.tolist() == [3, 1]
    assert code.load == 3
    assert code.replication.tolist() == [2, 0, 1, 1]
    assert code.assignment.toarray().tolist() == [[1, 0, 1, 1], [1, 0, 0, 0]]
    assert code.messages_per_worker.tolist() == [2, 1]
    assert code.messages_of(0).tolist() == [0, 1]
    assert code.tasks_of(0).tolist() == [0, 2, 3]
    assert code.tasks_of_message(1).tolist() == [2, 3]
    assert code.coefficients(1).tolist() == [[3.0], [4.0]]
    assert code.messages_of_workers([1]).tolist() == [2]


def test_pieces_are_columns_within_a_task() -> None:
    code = code_of([[1, 2, 0, 0], [0, 0, 3, 4]], n_tasks=2, n_pieces=2)
    assert code.tasks_of_message(1).tolist() == [1]
    assert code.coefficients(1).tolist() == [[3.0, 4.0]]
    assert code.target.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_content_names_the_first_equal_message() -> None:
    code = code_of([[1, 0], [0, 1], [1, 0], [2, 0]])
    assert code.content.tolist() == [0, 1, 0, 3]
    assert fractional_repetition(6, 2).content.tolist() == [0, 0, 2, 2, 4, 4]


def test_replicas_need_equal_messages_of_one_piece() -> None:
    assert fractional_repetition(6, 2).replicas
    assert not cyclic_mds(6, 3).replicas
    assert not communication_efficient_groups(8, 4, 2).replicas
    assert not code_of([[1, 1], [1, 2]], groups=np.array([0, 0])).replicas


def test_a_code_cannot_be_changed_nor_changes_what_it_was_made_of() -> None:
    matrix = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    owner = np.array([0, 1])
    code = code_of(np.zeros((2, 2)), encoding=matrix, owner=owner)
    matrix.data[:] = 9.0
    owner[:] = 0
    assert code.encoding.toarray().tolist() == [[1, 2], [0, 3]]
    assert code.owner.tolist() == [0, 1]
    for array in (code.encoding.data, code.encoding.indices, code.encoding.indptr, code.owner):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        operator.setitem(code.parameters, "decoder", "groups")
    with pytest.raises(AttributeError):
        code.__setattr__("name", "other")


def test_stored_zeros_and_repeated_entries_do_not_count() -> None:
    matrix = sparse.csr_array((np.array([1.0, 0.0, 2.0, 3.0]), np.array([1, 0, 0, 0]), np.array([0, 2, 4])), (2, 2))
    code = code_of(np.zeros((2, 2)), encoding=matrix)
    assert code.encoding.toarray().tolist() == [[0, 1], [5, 0]]
    assert code.loads.tolist() == [1, 1]


def test_messages_without_stragglers() -> None:
    code = nested(3, 1)
    assert code.messages_without([1]).tolist() == [0, 1, 4, 5]
    assert code.messages_without([]).tolist() == list(range(6))
    with pytest.raises(InvalidArgument, match="stragglers must be at most the 3 workers, but it is 4"):
        code.messages_without([0, 1, 2, 0])
    with pytest.raises(InvalidArgument, match=r"stragglers must name nobody twice, got \[1, 1\]"):
        code.messages_without([1, 1])
    with pytest.raises(InvalidArgument, match=r"workers must be among 0..2, but it is 3"):
        code.messages_without([3])
    with pytest.raises(InvalidArgument, match=r"workers must be among 0..2, but it is -1"):
        code.messages_of_workers([-1])


def test_repr_is_the_call_and_stays_short() -> None:
    assert repr(cyclic_mds(6, 3)) == "cyclic_mds(n_workers=6, stragglers=3)"
    assert repr(code_of([[1.0]], parameters={"long": list(range(100))})) == "test(long=...)"
    inner = {"name": "uncoded", "n_workers": 2}
    assert repr(code_of([[1.0]], parameters={"code": inner})) == "test(code=uncoded(n_workers=2))"


@pytest.mark.parametrize("code", [nested(4, 1), fractional_repetition(6, 2), communication_efficient_groups(8, 4, 2)])
def test_a_code_survives_pickling(code: GradientCode) -> None:
    again = pickle.loads(pickle.dumps(code))
    assert (again.encoding != code.encoding).nnz == 0
    assert again.owner.tolist() == code.owner.tolist()
    assert repr(again) == repr(code)
    assert again.structure.decoder == code.structure.decoder
    assert (again.tolerance, again.n_pieces, again.source) == (code.tolerance, code.n_pieces, code.source)
    with pytest.raises(ValueError, match="read-only"):
        again.encoding.data[0] = 1


def test_arrays_of_a_structure_are_copies_that_cannot_be_changed() -> None:
    weights = np.ones(3)
    code = fractional_repetition(3, 3).with_structure(weights=weights)
    weights[:] = 2
    assert code.structure.weights.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        code.structure.weights[0] = 3


def test_a_read_only_matrix_is_taken_as_it_is_meant_whatever_its_storage():
    entries, columns, starts = (
        np.array([1.0, 2.0, 0.0, 5.0, 1.0, 1.0]),
        np.array([2, 2, 0, 1, 1, 0]),
        np.array([0, 3, 6]),
    )
    mapped = sparse.csr_array((entries, columns, starts), shape=(2, 3))  # duplicates, a stored zero, unsorted columns
    for array in (mapped.data, mapped.indices, mapped.indptr):
        array.flags.writeable = False
    code = GradientCode("mapped", {}, mapped, np.arange(2), n_workers=2, n_tasks=3)
    assert code.encoding.nnz == 3
    assert code.tasks_of(0).tolist() == [2]
    assert code.loads.tolist() == [1, 2]
    assert code.coefficients(0).tolist() == [[3.0]]
    assert code.coefficients(1).tolist() == [[1.0], [6.0]]
    assert code.messages_of(1).tolist() == [1]


def test_numbers_of_any_type_make_a_code_and_anything_else_is_refused_in_a_sentence():
    half = Fraction(1, 2)
    rows = [[half, 1, 0], [0, 1, -1], [half, 0, 1]]
    given = {"name": "own", "parameters": {}, "encoding": rows, "owner": [0, 1, 2], "n_workers": 3, "n_tasks": 3}
    assert GradientCode(**given).encoding.toarray().tolist() == [[0.5, 1, 0], [0, 1, -1], [0.5, 0, 1]]
    for wrong, said in (
        ({"owner": [0, 0.5, 1]}, "owner must be a list of whole numbers"),
        ({"owner": [[0], [1], [2]]}, "owner must be a list of whole numbers"),
        ({"owner": []}, "owner must name the worker of each message"),
        ({"encoding": [["a", 1, 0]] * 3}, "encoding must be numbers"),
        ({"n_workers": "3"}, "n_workers must be a whole number"),
        ({"tolerance": -1}, "tolerance must be at least 0"),
        ({"groups": [0, 0, 0.5]}, "groups must be a list of whole numbers"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            GradientCode(**{**given, **wrong})


def test_a_worker_or_message_that_there_is_not_is_refused_also_below_zero():
    code = fractional_repetition(6, load=2)
    for ask in (code.messages_of, code.tasks_of, code.tasks_of_message, code.coefficients):
        for number in (-1, 6):
            with pytest.raises(InvalidArgument, match=rf"must be among 0..5, but it is {number}"):
                ask(number)
    for ask in (code.messages_of_workers, code.messages_without):
        with pytest.raises(InvalidArgument, match="must be a list of whole numbers"):
            ask([0.5])

"""Lowers a jaxpr to a program: calls are inlined, identities removed, names taken from the user's source."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from erasurehead.decompile import _expand as expand, _folding as folding, _origins as origins, _user_names as user_names
from erasurehead.decompile._batched_loops import with_one_condition
from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._operands import Operands, literal, type_of
from erasurehead.decompile._program import Body, Literal, Operand, SourceLocation, Statement, Type, Variable
from erasurehead.decompile._refusals import reason

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_vmap_call": "call",
    "remat2": "jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "composite": "jaxpr",
    "custom_lin": "",
    "shard_map": "jaxpr",
    "eval_jaxpr": "jaxpr",
}
"""Primitives that call a function, and the name of the parameter that has its jaxpr."""

KEPT = {"jit", "pjit", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"}
"""Calls that can become functions of the source, and are otherwise inlined."""

COLLECTIVES = {
    "psum",
    "psum_invariant",
    "pmax",
    "pmin",
    "all_gather",
    "all_gather_invariant",
    "all_to_all",
    "ppermute",
    "axis_index",
    "reduce_scatter",
    "pbroadcast",
}
"""Collective operations; on a single device they return their input."""

MASKED = {"debug_callback", "debug_print"}
"""Effects without results, which can become comments."""

EFFECTS = MASKED | {"io_callback", "pure_callback", "outside_call", "ffi_call"}


class Lowering:
    """Lowers equations of jaxprs to statements.

    Arguments:
        backend: `"jax"` or `"numpy"`: some identities and expansions apply to one of them only.
        inline: whether to inline the user's own jitted functions and custom rules.
        effects: `"error"`, or `"comment"` to keep them as comments.
    """

    def __init__(self, backend: str, inline: bool = True, effects: str = "error") -> None:
        self.backend, self.inline, self.effects = backend, inline, effects
        self._constants: dict[int, Variable] = {}
        self._kept: dict[tuple[Any, ...], Body] = {}
        self._alive: list[Any] = []
        self._named: list[tuple[Statement, bool]] = []
        self._operands = Operands(backend)
        self._axes: dict[Any, int] = {}

    def constant(self, array: Any) -> Operand:
        """Return the operand of an array that the function closes over; scalars become literals."""
        if id(array) not in self._constants:
            self._alive.append(array)
            aval = type_of(jax_module().typeof(array))
            if aval.shape == () and not aval.is_key:
                return Literal(np.asarray(array)[()], Type((), aval.dtype, aval.weak))
            value = _key_data(array) if aval.is_key else np.asarray(array)
            self._constants[id(array)] = Variable(aval, None, value)
        return self._constants[id(array)]

    def block(
        self, jaxpr: Any, consts: Sequence[Any], bound: Sequence[Operand], where: SourceLocation | None, name: str = ""
    ) -> Body:
        """Return a jaxpr as a block.

        Arguments:
            jaxpr: the jaxpr.
            consts: its constants.
            bound: operands in place of its first parameters; the others become parameters of the block.
            where: the location of the statement that runs it.
            name: name of the block; by default that of the user's function.
        """
        free = jaxpr.invars[len(bound) :]
        names = user_names.argument_names(jaxpr, len(jaxpr.invars), len(bound))
        parameters = [Variable(type_of(v.aval, self.backend), n) for v, n in zip(free, names, strict=True)]
        statements: list[Statement] = []
        results = self.run(jaxpr, consts, [*bound, *parameters], statements, where)
        return Body(name or user_names.function_name(jaxpr), parameters, statements, results)

    def closed(self, closed: Any, bound: Sequence[Operand], where: SourceLocation | None, name: str = "") -> Body:
        """Return a closed jaxpr as a block; see `block`."""
        return self.block(closed.jaxpr, closed.consts, bound, where, name)

    def run(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        operands: Sequence[Operand],
        into: list[Statement],
        outer: SourceLocation | None = None,
        inside_library: bool = False,
    ) -> list[Operand]:
        """Inline a jaxpr.

        Arguments:
            jaxpr: the jaxpr.
            consts: its constants.
            operands: its inputs.
            into: the list to which its statements are appended.
            outer: the location of the call, for equations without one in the user's source.
            inside_library: whether it belongs to a library, so that its own locations are ignored.

        Returns:
            Its results.
        """
        bindings: dict[Any, Operand] = dict(zip(jaxpr.invars, operands, strict=True))
        bindings.update(zip(jaxpr.constvars, map(self.constant, consts), strict=True))

        def read(atom: Any) -> Operand:
            if hasattr(atom, "val"):
                return Literal(np.asarray(atom.val, atom.aval.dtype)[()], type_of(atom.aval))
            return bindings[atom]

        for equation in jaxpr.eqns:
            own = None if inside_library else origins.location_of(equation.source_info)
            where = own or outer
            try:
                results = self.equation(equation, [read(atom) for atom in equation.invars], into, where, inside_library)
            except Unsupported as error:
                raise error if error.where is not None else error.at(where) from None
            bindings.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def equation(
        self,
        equation: Any,
        inputs: list[Operand],
        into: list[Statement],
        where: SourceLocation | None,
        inside_library: bool,
    ) -> Sequence[Operand]:
        """Append the statements of an equation, and return its results; see `run` for the arguments."""
        op, params = equation.primitive.name, dict(equation.params)
        if op in EFFECTS:
            if op in MASKED and self.effects == "comment" and not equation.outvars:
                text = str(params.get("fmt") or op)
                into.append(Statement("comment", [], [], {"text": f"{op}: {text!r}"}, where=where))
                return []
            raise Unsupported(op, self.backend, reason(op, self.backend))
        if op in CALLS:
            return self._call(op, equation, inputs, into, where, inside_library)
        if op in COLLECTIVES:
            return self._collective(op, params, inputs, equation, into, where)
        if op == "platform_index":
            return [_platform(params, self.backend)]
        if op == "empty2":  # in place of what a branch does not compute, or of rows to come: JAX has zeros there
            return [self.constant(equation.primitive.bind(**params))]
        if op == "cond":
            index = self._operands.index(inputs[0])
            if isinstance(index, Literal):
                branch = params["branches"][max(0, min(int(index.value), len(params["branches"]) - 1))]
                return self.run(branch.jaxpr, branch.consts, inputs[1:], into, where, inside_library)
        if op == "custom_linear_solve":
            return self._linear_solve(params, inputs, into, where)
        if self._operands.is_identity(op, params, equation, inputs):
            return inputs[: len(equation.outvars)]
        if equation.effects:
            raise Unsupported(op, self.backend, "it is an effect")
        expanded = expand.expansion(
            op, self.backend, params, [atom.aval for atom in equation.invars], equation.primitive
        )
        if expanded is not None:
            return self.run(expanded.jaxpr, expanded.consts, inputs, into, where, inside_library=True)
        return self._stated(equation, inputs, into, where)

    def _stated(
        self, equation: Any, inputs: list[Operand], into: list[Statement], where: SourceLocation | None
    ) -> Sequence[Operand]:
        """Append the statement of an equation, unless it comes to an operand that is there, and return its results."""
        op, params, outputs = equation.primitive.name, dict(equation.params), self._outputs(equation)
        statement = Statement(op, inputs, outputs, params, where=where, primitive=equation.primitive)
        statement.bound, statement.bound_outputs = (list(inputs), dict(equation.params)), list(outputs)
        if op == "random_bits" or "random" in op:
            partitionable = getattr(equation.ctx, "threefry_partitionable", True)
            statement.params["partitionable"] = bool(partitionable)
        self._blocks(statement, where)
        folded = folding.folded(statement)
        if folded is not None:
            return [folded]
        before = statement.op, statement.inputs
        simplified = self._operands.simplified(statement)
        if simplified is not None:
            return [simplified]
        if before != (statement.op, statement.inputs):
            statement.primitive = _primitive(statement)
            more = {} if statement.op in ("not", "eye") else {"sharding": None}
            statement.bound = list(statement.inputs), {**statement.params, **more}
        self._operands.define(statement)
        into.append(statement)
        self._named.append((statement, "transpose" in str(equation.source_info.name_stack)))
        return _forwarded(statement) if op == "cond" else outputs

    def _outputs(self, equation: Any) -> list[Variable]:
        return [Variable(type_of(v.aval, self.backend)) for v in equation.outvars]

    def _call(
        self,
        op: str,
        equation: Any,
        inputs: list[Operand],
        into: list[Statement],
        where: SourceLocation | None,
        library: bool,
    ) -> Sequence[Operand]:
        params = equation.params
        if not CALLS[op]:
            raise Unsupported(op, self.backend, reason(op, self.backend))
        if op == "shard_map":
            mesh = params["mesh"]
            if mesh.size != 1:
                raise Unsupported(op, self.backend, f"it runs on {mesh.size} devices, but sources run on one")
            self._axes.update(dict(mesh.shape))
        inner = params[CALLS[op]]
        jaxpr, consts = _opened(inner)
        jaxpr_library = library or user_names.in_library(jaxpr)
        if not self.inline and op in KEPT and not jaxpr_library:
            return self._keep(op, equation, jaxpr, consts, inputs, into, where)
        return self.run(jaxpr, consts, inputs, into, where, inside_library=jaxpr_library)

    def _keep(
        self,
        op: str,
        equation: Any,
        jaxpr: Any,
        consts: Sequence[Any],
        inputs: list[Operand],
        into: list[Statement],
        where: SourceLocation | None,
    ) -> Sequence[Operand]:
        name = str(equation.params.get("name") or user_names.function_name(jaxpr))
        key = (
            op,
            name,
            str(jaxpr),
            *map(id, consts),
        )  # not the jaxpr itself, as tracing a rule makes another one of the same function
        first = key not in self._kept
        if first:
            self._alive.append(consts)
            self._kept[key] = self.block(jaxpr, consts, [], where, name)
        block = self._kept[key]
        outputs = self._outputs(equation)
        params: dict[str, Any] = {"kind": op}
        blocks = {"call": [block]}
        if first and self.backend == "jax" and op in ("custom_jvp_call", "custom_vjp_call"):
            for part, closed in expand.rule_of(op, equation).items():
                blocks[part] = [self.closed(closed, [], where, f"{block.name}_{part}")]
        statement = Statement("call", inputs, outputs, params, blocks, where, equation.primitive)
        into.append(statement)
        self._named.append((statement, False))
        return outputs

    def _collective(
        self,
        op: str,
        params: dict[str, Any],
        inputs: list[Operand],
        equation: Any,
        into: list[Statement],
        where: SourceLocation | None,
    ) -> Sequence[Operand]:
        named: Any = params.get("axes", params.get("axis_name", ()))
        axes: Sequence[Any] = named if type(named) in (tuple, list) else (named,)
        for axis in axes:
            if self._axes.get(axis) != 1:
                raise Unsupported(op, self.backend, "it works across several devices, but sources run on one")
        if op == "axis_index":
            return [literal(0, np.int32)]
        outputs = self._outputs(equation)
        if op == "ppermute" and not params["perm"]:  # devices that receive nothing get zeros
            zero = Literal(np.zeros((), inputs[0].type.dtype)[()], Type((), inputs[0].type.dtype))
            shape = {"shape": outputs[0].type.shape, "broadcast_dimensions": ()}
            into.append(Statement("broadcast_in_dim", [zero], outputs, shape, where=where))
            return outputs
        if op == "all_to_all" and not params.get("tiled") and params["split_axis"] != params["concat_axis"]:
            order = [d for d in range(inputs[0].type.rank) if d != params["split_axis"]]
            order.insert(params["concat_axis"], params["split_axis"])
            into.append(Statement("transpose", inputs, outputs, {"permutation": tuple(order)}, where=where))
            return outputs
        same = all(v.type.shape == o.type.shape for v, o in zip(inputs, outputs, strict=True))
        if same:
            return inputs
        into.append(
            Statement("reshape", inputs, outputs, {"new_sizes": outputs[0].type.shape, "dimensions": None}, where=where)
        )
        return outputs

    def _linear_solve(
        self, params: dict[str, Any], inputs: list[Operand], into: list[Statement], where: SourceLocation | None
    ) -> Sequence[Operand]:
        lengths, closed = params["const_lengths"], params["jaxprs"].solve
        start = lengths.matvec + lengths.vecmat
        consts = inputs[start : start + lengths.solve]
        right = inputs[sum(lengths) :]
        return self.run(closed.jaxpr, closed.consts, [*consts, *right], into, where)

    def _blocks(self, statement: Statement, where: SourceLocation | None) -> None:
        """Turn the jaxprs among the parameters of a statement into blocks."""
        op, params, inputs = statement.op, statement.params, statement.inputs
        if op == "cond":
            branches = params.pop("branches")
            statement.blocks["branches"] = [
                self.closed(branch, inputs[1:], where, user_names.function_name(branch.jaxpr) or "branch")
                for branch in branches
            ]
            statement.inputs = [self._operands.index(inputs[0])]
            number = self._operands.made_by(inputs[0], "convert_element_type")
            if number is not None and number[0].type.kind == "b":
                statement.inputs = number[:1]
        elif op == "scan":
            n = params.pop("num_consts")
            statement.blocks["body"] = [self.closed(params.pop("jaxpr"), inputs[:n], where)]
            statement.inputs = inputs[n:]
        elif op == "while":
            n, m = params.pop("cond_nconsts"), params.pop("body_nconsts")
            statement.blocks["cond"] = [self.closed(params.pop("cond_jaxpr"), inputs[:n], where, "condition")]
            statement.blocks["body"] = [self.closed(params.pop("body_jaxpr"), inputs[n : n + m], where)]
            statement.inputs = inputs[n + m :]
            with_one_condition(statement)
        elif op in ("reduce", "reduce_window"):
            jaxpr = params.pop("jaxpr")
            jaxpr, consts = getattr(jaxpr, "jaxpr", jaxpr), params.pop("consts", ())
            statement.blocks["computation"] = [self.block(jaxpr, consts, [], where, "combine")]
        for name in ("update_jaxpr", "update_consts", "linear", "_split_transpose", "out_sharding", "sharding"):
            params.pop(name, None)

    def name_results(self) -> None:
        """Give the results of statements the names that the user's source assigns them to."""
        user_names.name_results(self._named)


def _primitive(statement: Statement) -> Any:
    """Return JAX's primitive of a statement's operation."""
    if statement.op != "eye":
        return getattr(importlib.import_module("jax.extend.core.primitives"), f"{statement.op}_p")
    kind = statement.output.type
    return SimpleNamespace(multiple_results=False, bind=lambda: jax_module().numpy.eye(*kind.shape, dtype=kind.dtype))


def _opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """Return a jaxpr, closed or not, with its constants."""
    return (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, ())


def _forwarded(statement: Statement) -> list[Operand]:
    """Return the results of a `cond`: if all branches return the same outer variable, that variable."""
    branches = statement.blocks["branches"]
    forwarded: list[Operand] = []
    for output, results in zip(statement.outputs, zip(*(b.results for b in branches), strict=True), strict=True):
        first = results[0]
        inside = {v for b in branches for s in b.statements for v in s.outputs}
        same = all(r is first for r in results) and isinstance(first, Variable) and first not in inside
        forwarded.append(first if same else output)
    return forwarded


def _platform(params: dict[str, Any], backend: str) -> Literal:
    """Return the index of the variant of a function for this platform; for numpy, that for CPUs."""
    jax = jax_module()

    platform = "cpu" if backend == "numpy" else jax.default_backend()
    for index, names in enumerate(params["platforms"]):
        if names is None or platform in names:
            return literal(index, np.int32)
    raise Unsupported("platform_index", backend, f"it has no variant for {platform}")


def _key_data(array: Any) -> Any:
    jax = jax_module()

    return np.asarray(jax.random.key_data(array))

"""What all ranks of a team must have in common, and how a rank is told in what it differs.

A rank sends a digest of what it has to who gathers. Only where that is another one, it asks for the text that was
digested, piece by piece, and says what differs and from whom. No input or
output, no clock, and PyTorch only where there is a model to describe: a rank without one, as tests have, comes sooner.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

import erasurehead
from erasurehead._internal.arrays import Array
from erasurehead.errors import InvalidArgument
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

_DIGEST, _SAME, _OTHER, _TELL, _PIECE = range(5)  # what a head's flag says
_ROOM = 1 << 15  # bytes of text that are sent at once


def about(optimizer: Optimizer, model: torch.nn.Module, size: int, way: str) -> dict[str, Any]:
    """Return what must be alike in all ranks, by what it is called.

    What the first rank sends to all need not be: the parameters that are trained, and buffers of real or complex
    numbers.
    """
    import torch

    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=True)}
    trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
    found: dict[str, Any] = {
        "the version of erasurehead": erasurehead.__version__,
        "the version of PyTorch": ".".join(torch.__version__.split(".")[:2]),
        "the number of ranks": size,
        "the way to meet": way,
        "the optimizer": type(optimizer).__name__,
    }
    for name, one in model.named_parameters():
        found[f"parameter {name!r}"] = _form(one) + ("" if id(one) in trained else content(one))
    for name, one in model.named_buffers():
        found[f"buffer {name!r}"] = _form(one) + ("" if one.is_floating_point() or one.is_complex() else content(one))
    for number, group in enumerate(optimizer.param_groups):
        trains = ", ".join(names.get(id(one), "?") for one in group["params"])
        short = f"{trains[:60]} ... ({len(group['params'])} with the checksum {zlib.crc32(trains.encode()):08x})"
        found[f"what group {number} trains"] = trains if len(trains) <= len(short) else short
        for key, value in group.items():
            if isinstance(value, bool | int | float | str | tuple) and key != "params":
                found[f"{key} of group {number}"] = repr(cast("object", value))
    return found


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def content(tensor: torch.Tensor) -> str:
    """Return a checksum of what is not sent to anybody, such as frozen parameters."""
    import torch

    data: Any = tensor.detach().cpu().contiguous().reshape(-1)
    return f" with the checksum {zlib.crc32(data.view(torch.uint8).numpy()) if data.numel() else 0:08x}"


def _as_vector(data: bytes) -> Array:
    return cast("Array", np.frombuffer(data, np.uint8))


@final
class Agreement:
    """Both sides: a rank that asks whether it is like the others, and who gathers, whom it asks.

    Arguments:
        rank: number of this rank.
        own: what it has, by what that is called.

    Attributes:
        agreed: whether this rank is like who gathers; None as long as that is not known.
    """

    def __init__(self, rank: int, own: dict[str, Any]) -> None:
        self.rank, self._own = rank, own
        self._text = json.dumps(own, separators=(",", ":")).encode()
        self._digest = hashlib.sha256(self._text).digest()
        self.agreed: bool | None = None
        self._theirs, self._length = b"", -1
        self._gathers: int | None = None

    def on_view(self, port: MemberPort, gathers: int | None) -> None:
        """Learn who gathers, and ask."""
        if gathers == self._gathers:
            return
        self._gathers = gathers
        if gathers == self.rank:
            self.agreed = True
        self.again(port)

    def again(self, port: MemberPort) -> None:
        """Ask again, unless this rank knows, as what was said may have been lost."""
        gathers = self._gathers
        if gathers is not None and self.agreed is None:
            self._theirs, self._length = b"", -1
            port.send(gathers, Head(Kind.ABOUT, _DIGEST), _as_vector(self._digest))

    def on_message(self, port: MemberPort, sender: int, head: Head, vector: Array | None) -> None:
        """Handle a question, or an answer."""
        if head.flag == _DIGEST:
            same = vector is not None and vector.tobytes() == self._digest
            port.send(sender, Head(Kind.ABOUT, _SAME if same else _OTHER, one=len(self._text)))
        elif head.flag == _TELL:
            piece = self._text[head.number * _ROOM : (head.number + 1) * _ROOM]
            port.send(sender, Head(Kind.ABOUT, _PIECE, number=head.number), _as_vector(piece))
        elif sender == self._gathers and self.agreed is None:
            self._hear(port, sender, head, vector)

    def _hear(self, port: MemberPort, sender: int, head: Head, vector: Array | None) -> None:
        if head.flag == _SAME:
            self.agreed = True
        elif head.flag == _OTHER:
            self._length = head.one
            port.send(sender, Head(Kind.ABOUT, _TELL, number=0))
        elif vector is not None and head.number * _ROOM == len(self._theirs):
            self._theirs += vector.tobytes()
            if len(self._theirs) < self._length:
                port.send(sender, Head(Kind.ABOUT, _TELL, number=len(self._theirs) // _ROOM))
            else:
                self.agreed = False
        port.wake_script()

    def check(self) -> None:
        """Raise an error that says in what this rank differs from who gathers, if it does.

        Raises:
            InvalidArgument: if so.
        """
        if self.agreed is not False:
            return
        theirs = cast("dict[str, Any]", json.loads(self._theirs))
        found: list[str] = []
        for name in [*self._own, *(name for name in theirs if name not in self._own)]:
            here, there = (f"{side[name]}" if name in side else "missing" for side in (self._own, theirs))
            if here != there:
                found.append(f"{name} is {here} here, and {there} there")
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        raise InvalidArgument(
            "optimizer",
            "must be given the same model and settings in all ranks",
            sentence=f"Rank {self.rank} differs from rank {self._gathers}: {'; '.join(found[:3])}{more}.",
        )

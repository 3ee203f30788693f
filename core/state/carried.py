"""Carrying a choice's stream between the calls of a client: opened from a state, saved to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.json import Json
from core.protocol.derender import StreamState
from core.protocol.engine import GenerateChunk, StreamChoice
from core.state.binding import Binding
from core.state.call import StreamCall
from core.state.signature import StateSigner

Chunk_co = TypeVar("Chunk_co", covariant=True)
Chunk = TypeVar("Chunk")


class CarriedStream(Protocol):
    """A choice's stream as a state left it."""

    def advance(self, choice: StreamChoice) -> ChoiceOutput:
        """Read one chunk of the choice.

        Raises:
            BadRequest: it cannot be read.
        """
        ...

    @property
    def counts_ids(self) -> bool:
        """Whether all ids of the output are needed to count the reasoning among them."""
        ...

    def count_reasoning(self, token_ids: Sequence[int], length: int) -> int:
        """How many tokens of the output are reasoning; 0 where nothing can tell. Changes nothing.

        ``token_ids`` are all of it where they are needed, ``length`` is their number.
        """
        ...

    def save(self, written: Json) -> Json:
        """The state's fields of the stream; ``written`` are those of its writer. Changes nothing.

        Raises:
            InvalidState: the stream cannot be carried on from here.
        """
        ...

    def leave(self) -> None:
        """The call ends after the last :meth:`save`: what the stream holds may wait for the next one."""
        ...


class CarriedTurn(Protocol):
    """The turn of a conversation that a stream belongs to (``core.turns``)."""

    def see(self, chunk: GenerateChunk) -> None:
        """Take note of a chunk."""
        ...

    def fields(self) -> Json:
        """The state's fields of it. Changes nothing."""
        ...


class ChunkWriter(Protocol[Chunk_co]):
    """Writes one choice's outputs as the chunks of a dialect, or as the events of one."""

    def write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> Chunk_co:
        """What the dialect says for one engine chunk, which holds at most one choice."""
        ...

    def fields(self) -> Json:
        """The state's fields of what was written so far. Changes nothing."""
        ...


def carry(
    call: StreamCall,
    binding: Binding,
    stream: CarriedStream,
    writer: ChunkWriter[Chunk],
    signer: StateSigner | None,
    report: Report = unreported,
    turn: CarriedTurn | None = None,
) -> tuple[list[Chunk], Json]:
    """Run the chunks of a call through its stream: the chunks written, and the state for the next call.

    ``report`` is told what the audit found when a choice ends, ``turn`` sees every chunk.

    Raises:
        BadRequest, InvalidState: as the stream does.
    """
    chunks = []
    for chunk in call.chunks:
        outputs = [stream.advance(choice) for choice in chunk.choices]
        report_findings(outputs, report)
        chunks.append(writer.write(chunk, outputs))
        if turn is not None:
            turn.see(chunk)
    state = {**stream.save(writer.fields()), "index": binding.choice_index, "request_id": binding.request_id}
    if turn is not None:
        state |= turn.fields()
    stream.leave()
    if signer is not None:
        # Signed as it will be read: through the type that checks it.
        state["signature"] = signer.sign(StreamState.model_validate(state).model_dump(exclude_defaults=True))
    return chunks, state

"""What can go wrong with a checkpoint, for the caller to act on."""

from __future__ import annotations

from core.errors import DerenderError, InvalidState


class CheckpointRefused(DerenderError):
    """A parser, or the state that it is in, that this package cannot carry. The caller replays instead.

    Which parsers are refused is known before the first chunk
    (:func:`core.parsing.checkpoint.check_supported`): a stream that began with
    a checkpoint can go on with one.
    """


class InvalidCheckpoint(InvalidState):
    """A checkpoint that is damaged, forged or of another parser. The parser it was restored into is spoilt."""

    def __init__(self, message: str) -> None:
        super().__init__(f"checkpoint: {message}", "stream_state.checkpoint")


class Misfit(Exception):
    """A value that is not of the kind that its place asks for. Never leaves this package."""

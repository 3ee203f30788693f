"""A stream that is only detokenized, carried by its decode window and the last sampled ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.choice.output import ChoiceOutput
from core.choice.reader import OutputReader
from core.choice.text import TextStream
from core.protocol.derender import VLLM_FIELDS, StreamState
from core.protocol.engine import StreamChoice
from core.state.call import StreamCall
from core.state.fingerprint import check_fingerprint
from core.state.origin import check_text_state
from core.state.window import read_window, window_fields


def open_text(reader: OutputReader, call: StreamCall, config: str, *, is_chat: bool) -> CarriedText:
    """The stream as the state left it, ready for the call's chunks; ``config`` is what its states belong to.

    Raises:
        BadRequest: the state or the prompt ids cannot be used.
    """
    if call.state is not None:
        check_fingerprint(call.state.config, config)
        if call.state.config is None:
            check_text_state(call.state, reader, is_chat=is_chat)
        stream = TextStream(reader, read_window(call.state), call.state.logprob_context_token_ids)
    else:
        # Only the first chunk is seeded: later ones carry the window.
        ids = call.prompt_token_ids if call.prompt_token_ids is not None else call.chunks[0].prompt_token_ids
        stream = TextStream(reader, reader.seed(ids))
    return CarriedText(stream, call, config)


class CarriedText:
    """See :class:`~core.state.carried.CarriedStream`. What the state holds besides is passed on."""

    def __init__(self, stream: TextStream, call: StreamCall, config: str) -> None:
        self._stream = stream
        self._call = call
        self._config = config

    def advance(self, choice: StreamChoice) -> ChoiceOutput:
        return self._stream.advance(choice)

    @property
    def counts_ids(self) -> bool:
        return False

    def count_reasoning(self, token_ids: Sequence[int], length: int) -> int:
        return 0

    def save(self, written: dict[str, Any]) -> dict[str, Any]:
        fields = {
            **(self._call.state or StreamState()).model_dump(include=VLLM_FIELDS),
            **window_fields(self._stream.window),
            "logprob_context_token_ids": self._stream.context,
            "config": self._config,
            **written,
        }
        if self._call.packed_context is not None:
            fields["context"] = self._call.packed_context
        return fields

    def leave(self) -> None:
        pass

"""One call of a stream: what it says, and what its state says in its place.

The call's own fields win over a carried context. A state's signature is
checked here, before anything of it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from core.bounds import check_count
from core.errors import InvalidState
from core.json import Json
from core.model import Model
from core.options import SHORT_BYTES
from core.protocol.derender import StreamBody, StreamState
from core.protocol.engine import GenerateChunk
from core.state.context import Context, pack_context, unpack_context


class StreamCall(NamedTuple):
    """A streaming call with everything that it may leave out filled in.

    ``request`` is the client's, as sent or as carried.
    ``packed_context`` goes into the next state when the stream carries one.
    """

    model_name: str
    request: Mapping[str, Any] | None
    prompt_tokens: int | None
    prompt_token_ids: list[int] | None
    state: StreamState | None
    chunks: Sequence[GenerateChunk]
    packed_context: str | None

    def count_prompt(self) -> int:
        """How many tokens the prompt has, by whoever tells it: the client, its ids, or the engine's first chunk."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        ids = self.prompt_token_ids if self.prompt_token_ids is not None else self.chunks[0].prompt_token_ids
        return len(ids or ())


def open_call(
    model: Model,
    body: StreamBody,
    request: Mapping[str, Any] | None,
    reduce: Callable[[Mapping[str, Any]], Json],
) -> StreamCall:
    """Put a call and its state together. ``reduce`` gives what of a request is carried.

    Raises:
        ModelNotFound, BadRequest: also for a state that is not signed as required.
    """
    state = body.stream_state
    context = Context()
    if state is not None:
        if model.signer is not None:
            model.signer.check(state.model_dump(exclude_defaults=True), state.signature)
            if state.signature is not None and state.config is None:
                raise InvalidState("config is missing; every state that is signed has it", "stream_state.config")
        if state.context is not None:
            context = unpack_context(state.context, SHORT_BYTES if model.options.short else None)
    name = model.resolve_name(body.model if body.model is not None else context.model)
    prompt_tokens = body.prompt_tokens if body.prompt_tokens is not None else context.prompt_tokens
    prompt_ids = body.prompt_token_ids if body.prompt_token_ids is not None else context.prompt_token_ids
    check_count(prompt_tokens, "prompt_tokens")
    packed = state.context if state is not None else None
    if body.carry_context and packed is None:
        # Prompt ids are long, and after the first chunk only a replay reads them: they are added for one alone.
        reduced = None if request is None else reduce(request)
        packed = pack_context(Context(body.model, body.prompt_tokens, None, reduced))
    return StreamCall(
        model_name=name,
        request=request if request is not None else context.request,
        prompt_tokens=prompt_tokens,
        prompt_token_ids=prompt_ids,
        state=state,
        chunks=body.chunks,
        packed_context=packed,
    )

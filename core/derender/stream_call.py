"""One streaming call: what it says and what its state says, put together, and the state for the next one.

The call's own fields win over a carried context. Everything of the state is
checked here, before any decoding: signature, stream and choice. What only the
parser path can check (``config``, the checkpoint) is checked there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.bounds import check_chunk, check_count, check_state_ids
from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest, StreamState
from core.protocol.engine import GenerateChunk, StreamChoice
from core.protocol.openai import random_id
from core.state.context import Context, pack_context, reduce_request, unpack_context
from core.state.fingerprint import check_stream

STOP_STRINGS_IN_STREAM = (
    "stop strings are not supported by streaming derender because text already sent cannot be cut. "
    "Use non-streaming derender or output_mode=text on /inference/v1/generate which holds stop strings back."
)


@dataclass
class StreamCall:
    """A streaming call with everything that it may leave out filled in.

    ``request`` is the chat or completion request, as sent or as carried.
    ``packed_context`` goes into the next state when the stream carries one;
    ``index`` is the choice that the stream belongs to, once a chunk has told.
    """

    model_name: str
    request: Mapping[str, Any] | None
    prompt_tokens: int | None
    prompt_token_ids: list[int] | None
    state: StreamState | None
    chunks: list[GenerateChunk]
    request_id: str
    packed_context: str | None
    index: int | None = None


class OutputStream(Protocol):
    """One choice's output on its way: each chunk of the engine gives one OpenAI chunk."""

    def advance(self, chunk: GenerateChunk) -> Json:
        """The OpenAI chunk of one engine chunk."""
        ...

    def step(self, choice: StreamChoice, keep: int | None = None) -> Json:
        """The OpenAI choice of one engine choice; ``keep`` is how many characters of its text count (None: all)."""
        ...

    def fields(self) -> Json:
        """What the next call needs: the state's fields apart from those of :func:`answer`."""
        ...


def open_call(
    model: Model,
    body: DerenderChatStreamRequest | DerenderCompletionStreamRequest,
    request: Mapping[str, Any] | None,
    is_chat: bool,
) -> StreamCall:
    """Put a call and its state together.

    Raises:
        ModelNotFound, BadRequest: also for a state that is not of this stream, or not signed as required.
    """
    state = body.stream_state
    context = Context()
    if state is not None:
        if model.signer is not None:
            model.signer.check(state.model_dump(exclude_defaults=True), state.signature)
        if state.context is not None:
            context = unpack_context(state.context)
    name = model.resolve_name(body.model if body.model is not None else context.model)
    prompt_tokens = body.prompt_tokens if body.prompt_tokens is not None else context.prompt_tokens
    prompt_ids = body.prompt_token_ids if body.prompt_token_ids is not None else context.prompt_token_ids
    check_count(prompt_tokens, "prompt_tokens")
    packed = state.context if state is not None else None
    if body.carry_context and packed is None:
        # Prompt ids are long, and after the first chunk only a replay reads them: ParsedStream adds them then.
        packed = pack_context(Context(body.model, body.prompt_tokens, None, reduce_request(request, is_chat)))
    return StreamCall(
        model_name=name,
        request=request if request is not None else context.request,
        prompt_tokens=prompt_tokens,
        prompt_token_ids=prompt_ids,
        state=state,
        chunks=body.chunks,
        request_id=(state.request_id if state is not None else None) or "",
        packed_context=packed,
        index=state.index if state is not None else None,
    )


def refuse_stop_strings(request: Mapping[str, Any] | None) -> None:
    """A stream cannot take back text that was sent, so a request with stop strings is refused, as in vLLM."""
    if request is not None and request.get("stop"):
        raise BadRequest(STOP_STRINGS_IN_STREAM)


def check_chunks(model: Model, call: StreamCall, is_chat: bool) -> None:
    """Bound the chunks of a call, and see that all are of the state's stream and choice.

    Raises:
        BadRequest: names what is wrong.
    """
    for chunk in call.chunks:
        if len(chunk.choices) > 1:
            where, count = ("chat", f" (got {len(chunk.choices)}).") if is_chat else ("completion", "")
            raise BadRequest(f"derender_{where}_stream expects at most one choice per chunk{count}")
        chunk_index = chunk.choices[0].index if chunk.choices else None
        check_stream(call.index, chunk_index, call.request_id or None, chunk.request_id)
        call.index = chunk_index if call.index is None else call.index
        call.request_id = call.request_id or chunk.request_id or ""
        check_chunk(chunk, model.limits)
    if call.state is not None:
        check_state_ids(call.state)
    # Without an id of the engine's, one is drawn: it stays the same for the whole stream.
    call.request_id = call.request_id or random_id()
    for chunk in call.chunks:
        chunk.request_id = call.request_id


def answer(model: Model, call: StreamCall, stream: OutputStream, many: bool) -> Json:
    """Run the chunks of a call through its stream: ``{"chunk" or "chunks", "stream_state"}``."""
    chunks = [stream.advance(chunk) for chunk in call.chunks]
    state = {**stream.fields(), "index": call.index, "request_id": call.request_id}
    if call.packed_context is not None:
        state["context"] = call.packed_context
    if model.signer is not None:
        # Signed as it will be read: through the type that checks it.
        state["signature"] = model.signer.sign(StreamState.model_validate(state).model_dump(exclude_defaults=True))
    return {"chunks": chunks, "stream_state": state} if many else {"chunk": chunks[0], "stream_state": state}

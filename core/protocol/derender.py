"""What clients send to the derender endpoints, and the stream state that they carry.

The forms are vLLM 0.33.0's, with the additions of ``docs/api.md``. A body's
``chat_request`` and ``completion_request`` stay plain mappings here: they are
validated by vLLM's own types (``core.protocol.output_options``,
``core.upstream.requests``).
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.json import Json
from core.protocol.body import decode_body
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.protocol.lists import MAX_CHOICES, FewChoices, Ids, Lengths, PromptIds, empty
from core.protocol.schema_error import MAX_COLLECTED, missing_body, schema_error

# vLLM accepts a decode window of this many tokens; a real one holds a handful.
MAX_WINDOW = 1024
MAX_LOGPROB_CONTEXT = 4
# Gathering pays off within a few dozen chunks; more in one call is not a stream any more.
MAX_CHUNKS = 4096
_STREAM_TRUE = re.compile(rb'"stream"\s*:\s*(?:true|1)')


class StreamState(BaseModel):
    """What one choice's stream carries from chunk to chunk, in the client's hands.

    Everything here is the client's word until it was checked. ``prev_tokens``
    to ``last_tool_call_ids`` are vLLM's fields, with vLLM's meaning: the
    decode window and its offsets (in tokens), whether the role was sent, the
    last sampled ids, the characters of text so far, and for the parser path
    what a replay needs. ``checkpoint`` is the parser (``core.state.checkpoint``),
    ``context`` the request (``core.state.context``), ``turn`` what is to be
    answered of the turn (``core.turns.answered``), ``written`` where the
    events of a dialect stand that has events (its own type, in its folder).
    """

    model_config = ConfigDict(extra="ignore")

    prev_tokens: list[str] = Field(default_factory=empty, max_length=MAX_WINDOW)
    prefix_offset: int = Field(default=0, ge=0)
    read_offset: int = Field(default=0, ge=0)
    role_sent: bool = False
    logprob_context_token_ids: list[int] = Field(default_factory=empty, max_length=MAX_LOGPROB_CONTEXT)
    logprob_text_offset: int = Field(default=0, ge=0)
    output_token_ids: Ids = Field(default_factory=empty)
    output_chunk_lens: Lengths = Field(default_factory=empty)
    tools_streamed: bool = False
    last_tool_call_ids: list[str] = Field(default_factory=empty, max_length=MAX_CHOICES)
    # Ours: what the state belongs to, and what replaces the replay fields. Absent in a state of vLLM.
    index: int | None = None
    request_id: str | None = None
    config: str | None = None
    checkpoint: str | None = None
    context: str | None = None
    turn: Json | None = None
    written: Json | None = None
    signature: str | None = None

    @model_validator(mode="after")
    def _lengths_add_up(self) -> StreamState:
        total = sum(self.output_chunk_lens)
        if total != len(self.output_token_ids):
            raise ValueError(
                f"output_chunk_lens must sum to len(output_token_ids) "
                f"(got sum={total}, len(output_token_ids)={len(self.output_token_ids)})"
            )
        return self


# The fields of vLLM's own state: a state that has all of them can go on in vLLM's server.
VLLM_FIELDS = {
    "prev_tokens",
    "prefix_offset",
    "read_offset",
    "role_sent",
    "logprob_context_token_ids",
    "logprob_text_offset",
    "output_token_ids",
    "output_chunk_lens",
    "tools_streamed",
    "last_tool_call_ids",
}


class OneShotBody(BaseModel):
    """What one-shot bodies of all dialects have in common.

    With ``return_turn_state`` the answer has, for each choice, the ``turn_state`` of
    its prompt with the ids that answered it (``core.turns.answered``).
    """

    model: str | None = None
    stream: Literal[False] = False
    return_turn_state: bool = False
    turn_state: Json | None = None

    @property
    def answers(self) -> list[GenerateResponse]:
        """The engine's answers."""
        raise NotImplementedError


class DerenderChatRequest(OneShotBody):
    """One-shot chat: the engine's whole answer with the request that it answers."""

    generate_response: GenerateResponse
    prompt_tokens: int | None = None
    prompt_token_ids: PromptIds | None = None
    chat_request: Json | None = None

    @property
    def answers(self) -> list[GenerateResponse]:
        return [self.generate_response]


class DerenderCompletionRequest(OneShotBody):
    """One-shot completions: one engine answer for each prompt, in order."""

    generate_responses: Annotated[list[GenerateResponse], Field(max_length=MAX_CHOICES, fail_fast=True), FewChoices]
    prompt_tokens: Ids | None = None
    prompt_token_ids: Annotated[list[PromptIds | None], Field(max_length=MAX_CHOICES, fail_fast=True)] | None = None
    completion_request: Json | None = None

    @property
    def answers(self) -> list[GenerateResponse]:
        return self.generate_responses


class StreamBody(BaseModel):
    """What streaming bodies of all dialects have in common.

    With ``return_turn_state`` the call that ends the choice answers its ``turn_state``;
    the prompt's, in ``turn_state``, comes with the first call.
    """

    model: str | None = None
    stream: Literal[True]
    return_turn_state: bool = False
    turn_state: Json | None = None
    generate_chunk: GenerateChunk | None = None
    generate_chunks: (
        Annotated[list[GenerateChunk], Field(min_length=1, max_length=MAX_CHUNKS, fail_fast=True), FewChoices] | None
    ) = None
    stream_state: StreamState | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: PromptIds | None = None
    carry_context: bool = False

    @model_validator(mode="after")
    def _one_form_of_chunks(self) -> Self:
        if (self.generate_chunk is None) == (self.generate_chunks is None):
            raise ValueError("give either generate_chunk or generate_chunks")
        return self

    @property
    def chunks(self) -> list[GenerateChunk]:
        """The chunks of this call, in order."""
        return [self.generate_chunk] if self.generate_chunk is not None else self.generate_chunks or []


class DerenderChatStreamRequest(StreamBody):
    """One chunk of a chat stream."""

    chat_request: Json | None = None


class DerenderCompletionStreamRequest(StreamBody):
    """One chunk of a completions stream."""

    completion_request: Json | None = None


_Once = TypeVar("_Once", bound=BaseModel)
_Chunk = TypeVar("_Chunk", bound=BaseModel)


def parse_derender(body: bytes, once: type[_Once], chunk: type[_Chunk]) -> _Once | _Chunk:
    """Validate a raw body as the one-shot or the streaming form; ``stream`` decides.

    Raises:
        SchemaError: names every field that is wrong.
    """
    if not body or body.isspace() or body.strip() == b"null":
        raise missing_body()
    # The key may also stand deeper in the body, so what is found only says which form to try first.
    forms: list[type[BaseModel]] = [chunk, once] if _STREAM_TRUE.search(body) else [once, chunk]
    errors: list[ValidationError] = []
    with _collector_paused():
        value = decode_body(body)
    for form in forms:
        try:
            with _collector_paused():
                return form.model_validate(value)  # type: ignore[return-value]
        except ValidationError as exc:
            errors.append(exc)
            if exc.error_count() > MAX_COLLECTED:
                raise schema_error(exc) from exc
            if not any(error["loc"][:1] == ("stream",) for error in exc.errors(include_url=False, include_input=False)):
                raise schema_error(exc) from exc
    # Neither form takes this ``stream``.
    raise schema_error(errors[0]) from errors[0]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector away while a body is validated.

    Validation only builds objects, none of which is garbage, and a body can
    hold a million: looking them over again and again takes longer than all else.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

"""The derender calls of one choice: what each sends, and the state that its answer brings.

Our server takes several chunks in a call, and carries the request in the
state, so that it is sent once. vLLM's own takes one chunk, and wants the
request every time. Which one answers shows in the first state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from derender_client._effects import Json, Steps
from derender_client._errors import RequestFailed, UnexpectedAnswer
from derender_client._server import NOT_UNDERSTOOD, Server, call


@dataclass(frozen=True)
class Kind:
    """A dialect: where its calls go, and what they call the request.

    ``one`` says that a request has one prompt, ``events`` that its stream is
    of events, of which an engine's chunk makes any number.
    """

    path: str
    field: str
    one: bool = True
    events: bool = False

    @property
    def render_path(self) -> str:
        return f"{self.path}/render"

    @property
    def derender_path(self) -> str:
        return f"{self.path}/derender"


CHAT = Kind("/v1/chat/completions", "chat_request")
COMPLETION = Kind("/v1/completions", "completion_request", one=False)
MESSAGES = Kind("/v1/messages", "messages_request", events=True)
RESPONSES = Kind("/v1/responses", "responses_request", events=True)


class Derendered(NamedTuple):
    """OpenAI chunks, one for each of the engine's, or another dialect's events; and the state for the next call."""

    chunks: list[Json]
    stream_state: Json


@dataclass(frozen=True)
class Context:
    """What derender wants to know of a request besides the chunks."""

    kind: Kind
    request: Mapping[str, Any]
    prompt_token_ids: list[int]
    prompt_tokens: int

    def fields(self) -> Json:
        model = self.request.get("model")
        return {
            **({} if model is None else {"model": model}),
            "prompt_tokens": self.prompt_tokens,
            "prompt_token_ids": self.prompt_token_ids,
            self.kind.field: self.request,
        }


def derender_chunks(server: Server, context: Context, chunks: list[Json], state: Json | None) -> Steps[Derendered]:
    """Turn chunks of one choice, in order, into OpenAI chunks, in as few calls as the server allows.

    Raises:
        ConnectionFailed, RequestFailed, UnexpectedAnswer: some of the chunks
            may have been derendered; repeating all with the same state is safe.
    """
    done, written = 0, []
    while done < len(chunks):
        answer, taken = yield from _derender_some(server, context, chunks[done:], state)
        done += taken
        written += answer.chunks
        state = answer.stream_state
    if state is None:
        raise ValueError("there must be at least one chunk")
    return Derendered(written, state)


def _derender_some(
    server: Server, context: Context, chunks: list[Json], state: Json | None
) -> Steps[tuple[Derendered, int]]:
    """One call with as many of the chunks as the server takes, and how many these are."""
    *first, last = _forms(server, context, chunks, state)
    for body in first:
        try:
            return (yield from _call(server, context, body, state))
        except RequestFailed as exc:
            # It may be that this server does not know the form: a fault of the request is there in any form.
            if exc.status not in NOT_UNDERSTOOD:
                raise
    return (yield from _call(server, context, last, state))


def _forms(server: Server, context: Context, chunks: list[Json], state: Json | None) -> Iterator[Json]:
    """The bodies to try, the most wanted first. One, once it is known what the server understands."""
    single = {"generate_chunk": chunks[0]}
    ours = {"generate_chunks": chunks} if len(chunks) > 1 else single
    common: Json = {"stream": True, "stream_state": state}
    if carries(state):
        # Only our server writes such a state.
        yield {**common, **ours, **({"prompt_token_ids": context.prompt_token_ids} if _replays(state) else {})}
        return
    common |= context.fields()
    if server.extended is not False:
        yield {**common, **ours, "carry_context": True}
        if server.extended is None and len(chunks) > 1:
            yield {**common, **single, "carry_context": True}
    if server.extended is not True:
        yield {**common, **single}


def _call(server: Server, context: Context, body: Json, before: Json | None) -> Steps[tuple[Derendered, int]]:
    path = context.kind.derender_path
    answer = yield from call(server, path, body)
    chunks, state = None, None
    if isinstance(answer, dict):
        single = answer.get("events") if context.kind.events else [answer.get("chunk")]
        chunks, state = answer.get("chunks", single), answer.get("stream_state")
    sent = len(body.get("generate_chunks", [None]))
    if (
        not isinstance(chunks, list)
        or not all(isinstance(chunk, dict) for chunk in chunks)
        or not isinstance(state, dict)
        or (not context.kind.events and len(chunks) != sent)
    ):
        raise UnexpectedAnswer(f"{server.url}{path} answered without the chunks and the stream_state of the call")
    if server.extended is None:
        # vLLM's own server ignores carry_context, or refuses it where it is strict.
        server.extended = carries(state)
    return Derendered(chunks, state), sent


def _replays(state: Json | None) -> bool:
    """Whether a parser reads the whole output again on each call, and for that the prompt, which no state carries."""
    return state is not None and state.get("config") is not None and state.get("checkpoint") is None


def carries(state: Json | None) -> bool:
    """Whether a state holds what later calls need of the request, so that they need not send it."""
    return state is not None and state.get("context") is not None

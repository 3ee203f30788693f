"""A client's request for the relay: rendered, checked, and what it says about its answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from core.bounds import check_shown_ids
from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.openai import random_id
from core.protocol.output_options import OutputOptions, chat_options, completion_options
from core.relay.passing import NOTHING, Passing
from core.relay.turns import NO_TURNS, RelayedTurn, Turns, take_relayed
from core.relay.vocabulary import check_vocabulary, vocabulary_size
from core.render.chat import render_counted_chat
from core.render.completions import render_valid_completion
from core.render.media import RELAYED
from core.text.stop_search import StopSearch
from core.upstream.requests import validate_chat, validate_completion

if TYPE_CHECKING:
    # Loaded by the first request that continues.
    from core.turns.asked import ContinueFrom
    from core.turns.door import Door

_FLAG: TypeAdapter[bool | None] = TypeAdapter(bool | None)


@dataclass(frozen=True)
class RelayRequest:
    """One request of a client, ready for the engine.

    ``prompts`` are the requests for the engine, one for each prompt (a chat
    has one); ``max_tokens`` the most tokens of a choice, for each prompt.
    ``chat`` is vLLM's validated chat request where a parser needs it.
    ``whole`` says that the engine must answer in one piece, because the answer
    holds what a stream cannot carry. ``echo`` is the text that comes before the
    answer, for each prompt; with ``echo_only`` it is all that is wanted.
    ``prompt_tokens`` are those of all prompts together, images expanded.
    ``turn`` is there where the conversation continues token for token.
    ``kept`` is what its dialect needs for the answer besides, ``findings`` what
    the audit found of the prompts.
    """

    model: Model
    model_name: str
    body: Mapping[str, Any]
    is_chat: bool
    chat: Any
    options: OutputOptions
    stop_search: StopSearch | None
    response_id: str
    created: int
    n: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    whole: bool
    echo: Sequence[str] | None
    echo_only: bool
    prompts: Sequence[Json]
    max_tokens: Sequence[int]
    prompt_tokens: int
    turn: RelayedTurn | None = None
    kept: Any = None
    findings: tuple[str, ...] = ()


def open_chat(
    model: Model,
    body: Any,
    request_id: str | None = None,
    passing: Passing = NOTHING,
    turns: Turns = NO_TURNS,
) -> RelayRequest:
    """A chat request; ``body`` is its decoded JSON, ``request_id`` wins over the request's own.

    Raises:
        ModelNotFound, BadRequest, SchemaError: as render does; also for an id outside the vocabulary,
            and for a field that ``passing`` does not let through.
    """
    body, given = take_relayed(model, body, turns)
    chat = validate_chat(body)
    turn = begin_turn(model, body, chat.messages, given, turns)
    # Rendering lets a parser set the request's own fields; the answer is read by what the client said.
    rendered, length = render_counted_chat(
        model, chat.model_copy(), request_id, RELAYED, None if turn is None else turn.continuation, relayed=True
    )
    options = chat_options(chat)
    read_by_parser = None if model.chat_parser is None else chat
    echo = [_last_words(body)] if _flag(body, "echo") else None
    return open_rendered(
        model,
        body,
        [rendered],
        rendered["request_id"],
        options,
        read_by_parser,
        echo,
        passing,
        is_chat=True,
        prompt_tokens=length,
        turn=turn,
    )


def begin_turn(
    model: Model,
    body: Any,
    messages: Sequence[Any],
    given: ContinueFrom | None,
    turns: Turns,
    door: Callable[[], Door] | None = None,
) -> RelayedTurn | None:
    """The turn of a request's ``body``, whose conversation is ``messages``; None where nothing continues.

    ``door`` gives that of its dialect, where it is not read as a chat.

    Raises:
        BadRequest, SchemaError: what the request carries is not of its form, or does not match.
    """
    if given is None and turns.policy is None:
        return None
    return RelayedTurn(model, body, messages, given, turns, None if door is None else door())


def open_completion(
    model: Model,
    body: Any,
    request_id: str | None = None,
    passing: Passing = NOTHING,
    turns: Turns = NO_TURNS,
) -> RelayRequest:
    """A completion request of one or more prompts. A completion has no turns.

    Raises:
        ModelNotFound, BadRequest, SchemaError: as render does; also for an id outside the vocabulary.
    """
    base = request_id or body_id(body) or random_id()
    request = validate_completion(body)
    rendered = render_valid_completion(model, request, base)
    options = completion_options(request)
    echo = None
    if _flag(body, "echo"):
        if body.get("logprobs") is not None and rendered[0]["stream"]:
            raise BadRequest("echo with logprobs cannot be streamed: an engine's stream has none of the prompt", "echo")
        # Ids that are echoed beside the text leave the text out, as in vLLM.
        echo = [""] * len(rendered) if options.return_token_ids else _prompt_texts(model, body, rendered)
    return open_rendered(model, body, rendered, f"cmpl-{base}", options, None, echo, passing, is_chat=False)


def open_rendered(
    model: Model,
    body: Mapping[str, Any],
    rendered: Sequence[Json],
    response_id: str,
    options: OutputOptions,
    chat: Any,
    echo: Sequence[str] | None,
    passing: Passing,
    *,
    is_chat: bool,
    prompt_tokens: int | None = None,
    turn: RelayedTurn | None = None,
    kept: Any = None,
) -> RelayRequest:
    """A request that is rendered; ``chat``, ``echo``, ``prompt_tokens``, ``turn`` and ``kept`` are as in
    :class:`RelayRequest`.

    Raises:
        BadRequest: an id is outside the vocabulary, or a field is set that ``passing`` does not let through.
    """
    findings = tuple(kind for request in rendered for kind in getattr(request, "findings", ()))
    rendered = [passing.pass_on(request) for request in rendered]
    size = vocabulary_size(model)
    for request in rendered:
        check_vocabulary(request, size)
    first = rendered[0]
    usage = first["stream_options"] or {}
    include_usage = bool(usage.get("include_usage"))
    whole = not first["stream"] and (
        "prompt_logprobs" in first["sampling_params"]
        or bool(first["kv_transfer_params"] or first["ec_transfer_params"])
    )
    n = first["sampling_params"].get("n", 1)
    if options.return_token_ids:
        check_shown_ids(n * sum(len(request["token_ids"]) for request in rendered))
    engine_id = f"derender-{secrets.token_hex(16)}"
    prompts = [
        _engine_request(request, engine_id if len(rendered) == 1 else f"{engine_id}-{index}", whole, include_usage)
        for index, request in enumerate(rendered)
    ]
    return RelayRequest(
        model=model,
        model_name=model.resolve_name(body.get("model")),
        body=body,
        is_chat=is_chat,
        chat=chat,
        options=options,
        stop_search=StopSearch(options.stop.strings) if options.stop.strings else None,
        response_id=response_id,
        created=int(time.time()),
        n=n,
        stream=bool(first["stream"]),
        include_usage=include_usage,
        continuous_usage=include_usage and bool(usage.get("continuous_usage_stats")),
        whole=whole,
        echo=echo,
        echo_only=echo is not None and not is_chat and body.get("max_tokens") in (0, "0"),
        prompts=prompts,
        max_tokens=[prompt["sampling_params"]["max_tokens"] for prompt in prompts],
        prompt_tokens=sum(len(prompt["token_ids"]) for prompt in prompts) if prompt_tokens is None else prompt_tokens,
        turn=turn,
        kept=kept,
        findings=findings,
    )


def _engine_request(rendered: Json, engine_id: str, whole: bool, include_usage: bool) -> Json:
    """What goes to the engine of a rendered request.

    The id is drawn whole: clients choose theirs, who knew another's could end
    its request, and an engine writes it into its log. Stop strings stay here (``core.relay.stop_strings``). The
    engine streams even for a client that does not: only then can it be stopped
    where a stop string ends, and is its silence noticed.
    """
    params = dict(rendered["sampling_params"])
    params["stop"] = []
    return {
        **rendered,
        "request_id": engine_id,
        "sampling_params": params,
        # Only what is needed to generate: the tools of a chat can be long.
        "token_offsets": None,
        "parse_context": None,
        "return_token_ids": None,
        "stream": not whole,
        "stream_options": {"include_usage": True} if include_usage else None,
    }


def body_id(body: Any) -> str | None:
    """The id that a request gives itself."""
    given = body.get("request_id") if isinstance(body, Mapping) else None
    return given if isinstance(given, str) else None


def _flag(body: Mapping[str, Any], name: str) -> bool:
    """A flag of a request that is already validated, in any of the spellings that vLLM takes."""
    return bool(_FLAG.validate_python(body.get(name)))


def _last_words(body: Mapping[str, Any]) -> str:
    """What a chat's ``echo`` repeats: the last message, if it is the assistant's."""
    last = body["messages"][-1]
    if last.get("role") != "assistant":
        return ""
    content = last.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content if isinstance(part, Mapping))


def _prompt_texts(model: Model, body: Mapping[str, Any], rendered: Sequence[Json]) -> list[str]:
    """The text of each prompt: as given, or decoded from its ids."""
    prompt = body.get("prompt")
    given = prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else [prompt]
    return [
        text if isinstance(text, str) else model.tokenizer.decode(request["token_ids"])
        for text, request in zip(given, rendered, strict=True)
    ]

"""Render, generate, derender, each in one call, and the three in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from derender_client._choice import Context, Derendered, Kind, derender_chunks
from derender_client._effects import Json, Steps
from derender_client._errors import UnexpectedAnswer
from derender_client._server import Server, call

GENERATE_PATH = "/inference/v1/generate"
Request: TypeAlias = Mapping[str, Any]


def render(server: Server, kind: Kind, request: Request) -> Steps[Any]:
    """A GenerateRequest; for completions a list of them, one for each prompt."""
    answer = yield from call(server, kind.render_path, request)
    rendered = [answer] if kind.one else answer
    if not isinstance(rendered, list) or not all(_is_generate_request(one) for one in rendered):
        raise UnexpectedAnswer(f"{server.url}{kind.render_path} did not answer with token_ids")
    return answer


def _is_generate_request(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("token_ids"), list)


def generate(server: Server, generate_request: Request) -> Steps[Json]:
    """The engine's whole answer to one GenerateRequest."""
    answer = yield from call(server, GENERATE_PATH, generate_request, pure=False)
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        raise UnexpectedAnswer(f"{server.url}{GENERATE_PATH} answered without choices")
    return answer


def derender(
    server: Server, kind: Kind, request: Request, generate_requests: Sequence[Request], responses: Sequence[Request]
) -> Steps[Json]:
    """The response of the engine's whole answers, one for each prompt."""
    prompts = [one["token_ids"] for one in generate_requests]
    one = kind.one
    body = {
        ("generate_response" if one else "generate_responses"): responses[0] if one else responses,
        "prompt_tokens": len(prompts[0]) if one else [len(ids) for ids in prompts],
        "prompt_token_ids": prompts[0] if one else prompts,
        kind.field: request,
    }
    if request.get("model") is not None:
        body["model"] = request["model"]
    answer = yield from call(server, kind.derender_path, body)
    if not isinstance(answer, dict):
        raise UnexpectedAnswer(f"{server.url}{kind.derender_path} answered without a response")
    return answer


def derender_by_hand(
    server: Server,
    kind: Kind,
    request: Request,
    generate_request: Request,
    chunks: Sequence[Json],
    state: Json | None,
) -> Steps[Derendered]:
    """Chunks of one choice, by a caller who keeps the state."""
    ids = generate_request["token_ids"]
    context = Context(kind, {**request, "stream": True}, ids, len(ids))
    return (yield from derender_chunks(server, context, list(chunks), state))


def round_trip(renderer: Server, engine: Server, derenderer: Server, kind: Kind, request: Request) -> Steps[Json]:
    """The response to a request. ``stream`` and ``stream_options`` in it are left out."""
    whole = {name: value for name, value in request.items() if name not in ("stream", "stream_options")}
    rendered = yield from render(renderer, kind, whole)
    generate_requests = [rendered] if kind.one else rendered
    responses = []
    for one in generate_requests:
        responses.append((yield from generate(engine, one)))
    return (yield from derender(derenderer, kind, whole, generate_requests, responses))

"""The playground's routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from core.errors import BadRequest, ConfigurationError, RequestError
from core.explain.answer import MAX_IDS, encode_output, explain_answer
from core.explain.prompt import REQUEST, explain_prompt
from core.json import Json
from core.model import Model
from core.protocol.body import decode_request
from core.protocol.schema_error import schema_error
from core.upstream.parsers import registered_parsers
from handlers.responses import json_response
from handlers.routing import Route, Router, json_endpoint

PATH = "/playground"
_FOLDER = Path(__file__).parent
# Nothing from elsewhere, nothing inline, in nobody's frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
# No token of any vocabulary here is longer than this on average: what is more is refused before it is encoded.
_MOST_CHARACTERS = 16 * MAX_IDS


class Configuration(BaseModel):
    """One way to read an output: parsers by vLLM's names (None: none), a template's name (None: the deployment's)."""

    model_config = ConfigDict(extra="forbid")

    tool_call_parser: str | None = Field(default=None, max_length=64)
    reasoning_parser: str | None = Field(default=None, max_length=64)
    template: str | None = Field(default=None, max_length=256)
    answers: Literal["vllm", "repaired"] = "vllm"
    size: int = Field(default=1, ge=1, le=MAX_IDS)


class Explained(BaseModel):
    """A chat ``request``, an ``output`` (text or ids; None: the prompt alone), and one or two configurations."""

    model_config = ConfigDict(extra="forbid")

    request: dict[str, Any]
    output: str | list[int] | None = None
    configurations: list[Configuration] = Field(min_length=1, max_length=2)


def explain(model: Model, body: bytes, request: Request) -> Json:
    """What every configuration makes of an output: ``{"configurations": [{"prompt", "answer"} or {"error"}]}``.

    Raises:
        BadRequest, SchemaError: the body is none.
    """
    try:
        asked = Explained.model_validate(decode_request(body))
    except ValidationError as exc:
        raise schema_error(exc, "body") from exc
    if isinstance(asked.output, str) and len(asked.output) > _MOST_CHARACTERS:
        raise BadRequest(f"output: at most {_MOST_CHARACTERS} characters", "output")
    if isinstance(asked.output, list) and len(asked.output) > MAX_IDS:
        raise BadRequest(f"output: at most {MAX_IDS} token ids", "output")
    return {"configurations": [_explained(model, asked, one) for one in asked.configurations]}


def _explained(model: Model, asked: Explained, configuration: Configuration) -> Json:
    chat = {**asked.request, "model": model.name}
    try:
        configured = model.with_options(_options(model, configuration))
        prompt, ids = explain_prompt(configured, chat)
        if asked.output is None:
            return {"prompt": prompt}
        output = asked.output if isinstance(asked.output, list) else encode_output(model.tokenizer, asked.output)
        return {"prompt": prompt, "answer": explain_answer(configured, chat, ids, output, configuration.size)}
    except ConfigurationError as exc:
        return {"error": str(exc)}
    except RequestError as exc:
        if exc.status >= 500:
            raise
        return {"error": exc.message}


def _options(model: Model, configuration: Configuration) -> Any:
    templates = _templates(model)
    if configuration.template is not None and configuration.template not in templates:
        raise BadRequest(f"there is no chat template {configuration.template!r}", "template")
    template = model.options.chat_template if configuration.template is None else templates[configuration.template]
    return replace(
        model.options,
        tool_call_parser=configuration.tool_call_parser,
        reasoning_parser=configuration.reasoning_parser,
        enable_auto_tool_choice=configuration.tool_call_parser is not None,
        answers=configuration.answers,
        chat_template=template,
        parser_family="any",
    )


def _templates(model: Model) -> Mapping[str, str]:
    found = model.tokenizer.chat_template
    return found if isinstance(found, dict) else {}


def choices(model: Model, body: bytes, request: Request) -> Json:
    """What there is to choose, and how the deployment is configured."""
    tools, reasoning = registered_parsers()
    return {
        "model": model.name,
        "tool_call_parsers": tools,
        "reasoning_parsers": reasoning,
        "templates": sorted(_templates(model)),
        "configured": {
            "tool_call_parser": model.options.tool_call_parser,
            "reasoning_parser": model.options.reasoning_parser,
        },
        "request": REQUEST,
        "examples": decode_request((_FOLDER / "examples.json").read_bytes()),
    }


def _file(path: str, name: str, media_type: str) -> Route:
    async def endpoint(model: Model, body: bytes, request: Request) -> Response:
        return Response((_FOLDER / name).read_bytes(), media_type=media_type, headers=_HEADERS)

    return Route(path, name, endpoint, lambda: (), method="GET", has_body=False, is_open=True)


async def _choices(model: Model, body: bytes, request: Request) -> Response:
    return json_response(choices(model, body, request))


PLAYGROUND = Router(
    routes=(
        _file(PATH, "page.html", "text/html"),
        _file(f"{PATH}/page.css", "page.css", "text/css"),
        _file(f"{PATH}/page.js", "page.js", "text/javascript"),
        Route(f"{PATH}/choices", "Choices", _choices, lambda: (), method="GET", has_body=False),
        Route(f"{PATH}/explain", "Explain", json_endpoint(explain), lambda: (Explained,)),
    ),
    encodes=True,
)

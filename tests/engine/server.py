"""The HTTP side of the engine, and its command line."""

import argparse
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

from tests.engine.answers import events, one_shot
from tests.engine.errors import EngineError
from tests.engine.generation import Engine
from tests.engine.model import Model
from tests.engine.requests import GenerateRequest
from tests.engine.script import DEFAULT_SCRIPT, Script


def validation_message(errors: Sequence[Any]) -> tuple[str, str | None]:
    """(message, param) of a request that does not have the right shape."""

    def text(error: Any) -> str:
        if not isinstance(error, dict):
            return str(error)
        shown = {**error, "loc": ".".join(str(part) for part in error["loc"])}
        value = shown.get("input")
        shown["input"] = f"<{type(value).__name__} of {len(value)} items>" if isinstance(value, dict | list) else value
        return str(shown)[:1000]

    lines = "\n".join(f"  {text(error)}" for error in errors[:10])
    loc = errors[0].get("loc") if isinstance(errors[0], dict) else None
    param = ".".join(str(part) for part in loc) if loc else None
    return f"{len(errors)} validation {'error' if len(errors) == 1 else 'errors'}:\n{lines}", param


async def require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").lower().split(";", maxsplit=1)[0]
    if media_type != "application/json":
        raise RequestValidationError(errors=["Unsupported Media Type: Only 'application/json' is allowed"])


def create_app(engine: Engine, api_key: str | None = None) -> FastAPI:
    """The HTTP side of an engine; with `api_key` what is under /inference wants it, as in vLLM."""
    app = FastAPI(title="scripted token engine")

    if api_key is not None:

        @app.middleware("http")
        async def check_key(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
            given = request.headers.get("authorization")
            if request.url.path.startswith("/inference") and given != f"Bearer {api_key}":
                return JSONResponse({"error": "Unauthorized"}, 401)
            return await call_next(request)

    @app.exception_handler(EngineError)
    async def on_engine_error(_: Request, error: EngineError) -> JSONResponse:
        return JSONResponse(error.body, error.status)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_: Request, error: RequestValidationError) -> JSONResponse:
        message, param = validation_message(error.errors())
        return JSONResponse(EngineError(message, param, 400, "Bad Request").body, 400)

    @app.post("/inference/v1/generate", dependencies=[Depends(require_json)], response_model=None)
    async def generate(request: GenerateRequest, raw_request: Request) -> Response:
        engine.check(request)
        answer = engine.answer(request)
        request_id = f"generate-tokens-{raw_request.headers.get('x-request-id', request.request_id)}"
        if request.stream:
            return StreamingResponse(events(engine, request, request_id, answer), media_type="text/event-stream")
        return JSONResponse(await one_shot(engine, request, request_id, answer))

    @app.post("/abort_requests")
    @app.post("/inference/v1/abort_requests")
    async def abort_requests(raw_request: Request) -> Response:
        try:
            body = await raw_request.json()
        except ValueError as error:
            raise HTTPException(400, f"JSON decode error: {error}") from None
        ids = body.get("request_ids") if isinstance(body, dict) else None
        if ids is None:
            raise HTTPException(400, "Missing 'request_ids' in request body")
        engine.abort([ids] if isinstance(ids, str) else [one for one in ids if isinstance(one, str)])
        return Response()

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [
                {
                    "id": name,
                    "object": "model",
                    "created": int(time.time()),
                    "owned_by": "scripted-engine",
                    "root": engine.names[0],
                    "parent": None,
                    "max_model_len": engine.model.max_model_len,
                }
                for name in engine.names
            ],
        }

    return app


def default_model() -> Path:
    """The qwen3 folder of the repository's own builder."""
    from infra.models import build

    return build("qwen3", Path(__file__).resolve().parents[2] / "build" / "models")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8200)
    parser.add_argument("--model", type=Path, help="model folder; default: qwen3, built into build/models")
    parser.add_argument("--served-model-name", nargs="+", help="default: the folder as given, and its last part")
    parser.add_argument("--script", type=Path, help="a JSON file of rules; default: a built-in script")
    parser.add_argument("--max-model-len", type=int, help="default: what the model's config.json says")
    parser.add_argument("--tokens-per-chunk", type=int, default=1, help="tokens in an event of a stream (default 1)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="wait before each step (default 0)")
    parser.add_argument("--tokens-only", action="store_true", help="no stop strings, and no check of ids")
    parser.add_argument("--api-key", help="the bearer key that /inference wants")
    options = parser.parse_args(arguments)
    if options.tokens_per_chunk < 1 or options.delay_ms < 0 or (options.max_model_len or 1) < 1:
        parser.error("--tokens-per-chunk and --max-model-len must be at least 1, --delay-ms at least 0")
    folder = options.model or default_model()
    try:
        script = Script(json.loads(options.script.read_bytes()) if options.script else DEFAULT_SCRIPT)
    except (OSError, ValueError) as error:
        parser.error(f"--script: {error}")
    names = options.served_model_name or list(dict.fromkeys([str(folder), folder.resolve().name]))
    model = Model(folder, options.max_model_len)
    engine = Engine(
        model, script, names, options.tokens_per_chunk, options.delay_ms / 1000, tokens_only=options.tokens_only
    )
    print(f"scripted engine on http://{options.host}:{options.port}, model {', '.join(names)}", flush=True)
    uvicorn.run(create_app(engine, options.api_key), host=options.host, port=options.port, log_level="warning")
    return 0

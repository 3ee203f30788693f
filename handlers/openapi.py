"""The OpenAPI document.

Endpoints validate raw bytes, so FastAPI cannot read the bodies off a
signature; they are described here, from the types that each route names.
The document is built by the first call that asks for it: a cold start does
not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from handlers.routing import Route
from handlers.web import FastAPI

_REFS = "#/components/schemas/{model}"
_JSON = "application/json"

_ERRORS = {
    "400": "The body is not JSON, not of this form, or refused.",
    "404": "The model is not served here.",
    "413": "The body is too large.",
    "503": "The model is not loaded yet.",
}


def openapi_document(app: FastAPI, routes: Iterable[Route]) -> dict[str, Any]:
    """The document of an application of these routes, built once and kept on it."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=_described(app))
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for route in routes:
            operation = document["paths"][route.path]["post"]
            if forms := route.forms():
                schema = _body_schema(forms, schemas)
                operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
            schemas[route.errors.name] = route.errors.schema
            operation["responses"].update(_error_responses(route.errors.name))
        app.openapi_schema = document
    return app.openapi_schema


def _described(app: FastAPI) -> list[APIRoute]:
    """The application's routes as FastAPI describes them."""

    async def answer(request: Request) -> Response:
        raise NotImplementedError

    return [
        APIRoute(route.path, answer, methods=route.methods, name=route.name)
        for route in app.routes
        if isinstance(route, HttpRoute) and route.include_in_schema
    ]


def _error_responses(name: str) -> dict[str, Any]:
    content = {_JSON: {"schema": {"$ref": _REFS.format(model=name)}}}
    return {status: {"description": text, "content": content} for status, text in _ERRORS.items()}


def _body_schema(forms: Sequence[type[BaseModel]], schemas: dict[str, Any]) -> dict[str, Any]:
    refs = [_register(form, schemas) for form in forms]
    return refs[0] if len(refs) == 1 else {"oneOf": refs}


def _register(form: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = form.model_json_schema(ref_template=_REFS)
    schemas.update(schema.pop("$defs", {}))
    schemas[form.__name__] = schema
    return {"$ref": _REFS.format(model=form.__name__)}

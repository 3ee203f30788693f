"""The JSON of a request body."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from core.protocol.density import BYTES_A_RENDERED_CONTAINER, check_density
from core.protocol.schema_error import body_error, missing_body, shown_input


def decode_request(raw: bytes) -> Any:
    """The JSON value of a body that is to be rendered.

    Raises:
        PayloadTooLarge: it holds more lists and objects than its size allows.
        SchemaError: as :func:`decode_body`.
    """
    check_density(raw, BYTES_A_RENDERED_CONTAINER)
    return decode_body(raw)


def decode_body(raw: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        SchemaError: it is not JSON, or nested deeper than anything that a request holds (200 levels).
    """
    if not raw:
        raise missing_body()
    try:
        return from_json(raw)
    except ValueError as exc:
        place, reason = 0, str(exc)
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        # The standard library's words: what a server that decodes with it says.
        place, reason = error.pos, error.msg
    except (ValueError, RecursionError):
        pass
    raise body_error("json_invalid", "JSON decode error", shown_input({}), place, reason)

"""Errors of Responses, which have a type of their own where vLLM's endpoints say so."""

from __future__ import annotations

from typing import ClassVar

from core.errors import BadRequest, RequestError


class InvalidRequest(BadRequest):
    """The request asks for what this endpoint does not do."""

    type: ClassVar[str] = "invalid_request_error"


class ResponseNotFound(RequestError):
    """There is no response of this id: none is ever stored."""

    status: ClassVar[int] = 404
    type: ClassVar[str] = "invalid_request_error"

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response with id '{response_id}' not found.", "response_id")


def error_event(error: RequestError, sequence_number: int) -> dict[str, object]:
    """The last event of a stream that fails: OpenAI's ``error`` event, and in it the error as elsewhere.

    Clients read either: openai's packages raise over a field ``error``, others look at the event's own fields.
    """
    return {
        "type": "error",
        "sequence_number": sequence_number,
        "code": error.type,
        "message": error.message,
        "param": error.param,
        **error.body(),
    }

"""The one error hierarchy.

    DerenderError
    ├── ConfigurationError        stops the start; never reaches a client
    └── RequestError              an answer to a client, in vLLM's error shape
        ├── BadRequest            400, "BadRequestError": understood, and refused
        │   └── InvalidState      400: a stream_state that does not add up
        ├── SchemaError           400, "Bad Request": the body is not of the documented form
        ├── Unauthorized          401, "AuthenticationError": no key of the service
        ├── ModelNotFound         404, "NotFoundError"
        ├── TooSlow               408: the body did not come in time
        ├── Unprocessable         422, "UnprocessableEntityError": names a file that cannot be had
        ├── NotImplementedHere    501, "NotImplementedError"
        ├── ServerRefusal         500, "InternalServerError": refused on purpose where vLLM answers with a 500
        ├── PayloadTooLarge       413
        ├── EngineGaveUp          502: what is to be derendered says that the engine failed
        ├── Unavailable           503: the model is not there (yet)
        ├── Overloaded            503: as much is waiting as may
        ├── InternalFault         500: a fault of ours, of which the answer says nothing
        └── LongWork              no answer: a server does such work elsewhere

The statuses and type names are those of vLLM 0.33.0's ``ErrorResponse``
(recorded in ``tests/golden``). Core raises; only ``handlers`` turns an error
into a response.
"""

from __future__ import annotations

from typing import Any, ClassVar


class DerenderError(Exception):
    """Base of everything that this project raises on purpose."""


class ConfigurationError(DerenderError):
    """A setting, model folder or parser choice that cannot work. Stops the start."""


class RequestError(DerenderError):
    """An error that is answered to the client.

    ``param`` names the field at fault, dotted, or is None. ``retry_after`` is
    in how many seconds another try is worth it, None where it is not.
    """

    status: ClassVar[int] = 400
    type: ClassVar[str] = "BadRequestError"
    retry_after: int | None = None

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def __reduce__(self) -> tuple[Any, ...]:
        # Some classes take other arguments than the base: what was raised is copied as it is.
        return _copied, (type(self), self.args, self.__dict__)

    def body(self) -> dict[str, Any]:
        """The response body in vLLM's error shape."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.status}}


def _copied(kind: type[RequestError], args: tuple[Any, ...], fields: dict[str, Any]) -> RequestError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class BadRequest(RequestError):
    """The request was understood and is refused."""


class InvalidState(BadRequest):
    """A ``stream_state`` that is malformed, tampered with or belongs to another stream."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"invalid stream_state: {message}", param)


class SchemaError(RequestError):
    """The body is not JSON or not of the documented form."""

    type: ClassVar[str] = "Bad Request"


class Unauthorized(RequestError):
    """The request has no key that the service knows."""

    status: ClassVar[int] = 401
    type: ClassVar[str] = "AuthenticationError"


class ModelNotFound(RequestError):
    """The request names a model that is not served here."""

    status: ClassVar[int] = 404
    type: ClassVar[str] = "NotFoundError"


class Unprocessable(RequestError):
    """The request names a file that cannot be had."""

    status: ClassVar[int] = 422
    type: ClassVar[str] = "UnprocessableEntityError"


class NotImplementedHere(RequestError):
    """The request asks for something that neither vLLM nor this server does."""

    status: ClassVar[int] = 501
    type: ClassVar[str] = "NotImplementedError"


class ServerRefusal(RequestError):
    """A refusal that vLLM answers with a 500, and so does this server, for its clients' sake; nothing failed."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalServerError"


class PayloadTooLarge(RequestError):
    """The body, or the answer, is larger than what may pass."""

    status: ClassVar[int] = 413
    type: ClassVar[str] = "RequestEntityTooLargeError"


class Unavailable(RequestError):
    """The model could not be loaded; a later call may succeed.

    ``reason`` is one line for the log. It may name addresses; the client is not told.
    """

    status: ClassVar[int] = 503
    type: ClassVar[str] = "ServiceUnavailableError"

    def __init__(self, message: str, param: str | None = None, *, reason: str = "") -> None:
        super().__init__(message, param)
        self.reason = reason


class TooSlow(RequestError):
    """The request did not come in the time that it may take."""

    status: ClassVar[int] = 408
    type: ClassVar[str] = "RequestTimeoutError"


class Overloaded(RequestError):
    """As much is at work, or waits, as may: a later call may be answered."""

    status: ClassVar[int] = 503
    type: ClassVar[str] = "ServiceUnavailableError"
    retry_after = 1


class LongWork(RequestError):
    """The work on the request may be long, and only short work was asked for (``ModelOptions.short``).

    It never reaches a client: who asks for short work does the other elsewhere.
    """

    def __init__(self) -> None:
        super().__init__("the work on this request may be long")


class ShuttingDown(RequestError):
    """The server ends, and the request with it; another one may answer it."""

    status: ClassVar[int] = 503
    type: ClassVar[str] = "ServiceUnavailableError"

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class EngineGaveUp(RequestError):
    """The engine's answer is that it failed: there is nothing in it to derender."""

    status: ClassVar[int] = 502
    type: ClassVar[str] = "BadGatewayError"

    def __init__(self) -> None:
        super().__init__("the engine failed while it generated")


class InternalFault(RequestError):
    """The answer to a fault of ours. It says nothing of what the request held."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalServerError"

    def __init__(self) -> None:
        super().__init__("Internal server error")

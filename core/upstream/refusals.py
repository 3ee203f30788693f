"""What vLLM's code raises over a request, as the error that the client gets. The one place that turns it.

The code that reads a client's messages, template options and schemas is
vLLM's, jinja2's and harmony's, and what it meets there is the client's: so
whatever it raises is an answer to the client, never a fault of the server.
This module must never be put around code that reads the model's own files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import BadRequest, DerenderError

# A message may quote what it refuses, and the answer must not grow with the request.
_MAX_MESSAGE = 16_000


@contextmanager
def refusals() -> Iterator[None]:
    """Turn every exception of the block into a :class:`~core.errors.BadRequest`; our own errors pass.

    The message and ``param`` are those of vLLM's ``create_error_response``.
    What vLLM would answer with a 500 (a missing key deep in a tool, a template
    that recurses for ever) is a 400 here that names the kind of failure.
    """
    try:
        yield
    except DerenderError:
        raise
    except Exception as exc:
        raise refusal_of(exc) from exc


def refusal_of(exc: Exception) -> BadRequest:
    """The answer to a request over which ``exc`` was raised."""
    message = str(exc)[:_MAX_MESSAGE].strip()
    if not message or not isinstance(exc, _spoken()):
        message = f"The request cannot be processed: {type(exc).__name__}" + (f": {message}" if message else "")
    return BadRequest(message, getattr(exc, "parameter", None))


def invalid(message: str, parameter: str) -> BadRequest:
    """A refusal of ours in the words of vLLM's ``VLLMValidationError``, which names the field behind its message."""
    return BadRequest(f"{message} (parameter={parameter})", parameter)


def _spoken() -> tuple[type[Exception], ...]:
    """What vLLM answers with the exception's own text."""
    # Late: only a request that fails pays for these.
    from jinja2 import TemplateError
    from vllm.exceptions import VLLMError

    return (VLLMError, ValueError, TypeError, OverflowError, TemplateError)

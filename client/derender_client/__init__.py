"""A client for callers of render, a token engine, and derender.

It does what a caller of the three would write by hand: render a request,
send the token ids to the engine, and turn what comes back into an OpenAI
response, whole or streamed. In a stream it carries the ``stream_state`` of
each choice, sends the request once, gathers chunks into one call, and repeats
calls that failed on the way. It works with this project's servers and with
vLLM's own.

    with DerenderClient("http://localhost:8100", "http://localhost:8200") as client:
        for chunk in client.stream_chat(request, gather_tokens=8, gather_ms=50):
            ...

It stands alone: it needs httpx, and must never import anything else of this
project. See ``docs/client.md``.
"""

from derender_client._async_client import AsyncDerenderClient
from derender_client._choice import Derendered
from derender_client._conversation import AsyncConversation, Conversation
from derender_client._errors import (
    ClientError,
    ConnectionFailed,
    ErrorAnswer,
    RequestFailed,
    StreamFailed,
    UnexpectedAnswer,
)
from derender_client._sync_client import DerenderClient
from derender_client._turns import Break, Sample, Turn

__all__ = [
    "AsyncConversation",
    "AsyncDerenderClient",
    "Break",
    "ClientError",
    "ConnectionFailed",
    "Conversation",
    "DerenderClient",
    "Derendered",
    "ErrorAnswer",
    "RequestFailed",
    "Sample",
    "StreamFailed",
    "Turn",
    "UnexpectedAnswer",
]

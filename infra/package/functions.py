"""The functions that are packaged, in one place: a new one is a new line here and its entry module in ``handlers``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """One Lambda function.

    ``without`` names distributions of the runtime lock that it never loads,
    ``without_modules`` modules of this project: the application imports each
    function's endpoints where it adds its routes.
    """

    name: str
    without: frozenset[str] = frozenset()
    without_modules: frozenset[str] = frozenset()

    @property
    def module(self) -> str:
        """The entry module; what it reaches by import statements is packaged."""
        return f"handlers.{self.name}"

    @property
    def handler(self) -> str:
        """What Lambda is told to call."""
        return f"{self.module}.handler"


_HTTP_CLIENT = frozenset({"httpx", "httpcore", "h11", "certifi"})
# xgrammar's library checks the grammars of requests, which only render sees.
_GRAMMARS = frozenset({"xgrammar", "apache-tvm-ffi"})
_RELAY = frozenset({"handlers.relay_endpoints", "handlers.engine_client"})

FUNCTIONS = (
    Function("render", _HTTP_CLIENT, _RELAY | {"handlers.derender_endpoints"}),
    Function("derender", _HTTP_CLIENT | _GRAMMARS, _RELAY | {"handlers.render_endpoints"}),
)


def find_function(name: str) -> Function | None:
    """The function of that name, None when there is none."""
    return next((function for function in FUNCTIONS if function.name == name), None)

"""The functions that are packaged, in one place: a new one is a new line here and its entry module in ``handlers``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """One Lambda function.

    ``doors`` are those of the dialects that it opens (``core.dialects``);
    ``without`` names distributions of its lock that it never loads. ``lock`` is
    a file of ``requirements/``. ``start`` is the script, beside this module, that starts
    a function which is a server of its own (behind the Lambda Web Adapter);
    the others are called by Lambda's Python runtime.
    """

    name: str
    doors: frozenset[str]
    without: frozenset[str] = frozenset()
    lock: str = "runtime.txt"
    start: str | None = None

    @property
    def module(self) -> str:
        """The entry module; what it reaches by import statements is packaged."""
        return f"handlers.{self.name.replace('-', '_')}"

    @property
    def handler(self) -> str:
        """What Lambda is told to call, or to run."""
        return self.start or f"{self.module}.handler"


# xgrammar's library checks the grammars of requests, which only render sees.
_GRAMMARS = frozenset({"xgrammar", "apache-tvm-ffi"})

FUNCTIONS = (
    Function("render", frozenset({"render"})),
    # Render for models that take images: Pillow, numpy and blake3 are in this one only.
    Function("render-images", frozenset({"render"}), lock="images.txt"),
    Function("derender", frozenset({"derender"}), without=_GRAMMARS),
    # Its OpenAPI document and its counting are rendering's.
    Function("relay", frozenset({"relay", "render"}), without=frozenset({"mangum"}), lock="relay.txt", start="run.sh"),
)


def find_function(name: str) -> Function | None:
    """The function of that name, None when there is none."""
    return next((function for function in FUNCTIONS if function.name == name), None)

"""What is packaged, in one place: the Lambda functions, and the server of the container image.

A new function is a new line here and its entry module in ``handlers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.package.reach import DOORS


@dataclass(frozen=True)
class Function:
    """One Lambda function, or what an image runs.

    ``doors`` are those of the dialects that it opens (``core.dialects``);
    ``without`` names distributions of its lock that it never loads. ``lock`` is
    a file of ``requirements/``. ``start`` is the script, beside this module, that starts
    a function which is a server of its own (behind the Lambda Web Adapter);
    Lambda's Python runtime calls the others. ``entry`` is the entry module where
    it is not the one in ``handlers`` of that name. ``with_model`` says whether a
    packaged model goes into it.
    """

    name: str
    doors: frozenset[str]
    without: frozenset[str] = frozenset()
    lock: str = "runtime.txt"
    start: str | None = None
    entry: str | None = None
    with_model: bool = True

    @property
    def module(self) -> str:
        """The entry module; what it reaches by import statements is packaged."""
        return self.entry or f"handlers.{self.name.replace('-', '_')}"

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

# What the functions that render get besides where the fast encoder is wanted in them.
FAST_LOCK = "fast.txt"

# The command `derender`, as the server's image runs it. Lambda never calls it.
SERVER = Function(
    "serve",
    DOORS,
    without=frozenset({"mangum"}),
    lock="server.txt",
    entry="handlers.commands.__main__",
    with_model=False,
)


def find_function(name: str) -> Function | None:
    """The function of that name, None for an unknown name."""
    return next((function for function in FUNCTIONS if function.name == name), None)

"""``derender invoke``: one event through a built function, where there is something to build it from."""

from __future__ import annotations

from pathlib import Path

from core.errors import ConfigurationError


def invoke(name: str, event: Path, model: Path | None = None) -> int:
    """Build the function where that is needed, invoke it, and print its answer as the last line.

    Raises:
        ConfigurationError: this is not a checkout, no such function, no event, or a part of the emulator is missing.
    """
    try:
        # What builds and emulates is no part of the product: the one import of it, and late.
        from infra.emulator.invoke import invoke_function
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] != "infra":
            raise
        raise ConfigurationError("invoke builds a Lambda function: run it in a checkout of the project") from None
    return invoke_function(name, event, model)

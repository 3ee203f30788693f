"""The error that marks what was left out of the slice."""

__all__ = ["DeniedModule"]


class DeniedModule(ImportError):
    """A module that the slice leaves out was imported or used."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not part of the vLLM slice", name=name)

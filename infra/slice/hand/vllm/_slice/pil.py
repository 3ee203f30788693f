"""The `PIL.Image` of vLLM's message types: a class for annotations. No instance is ever made."""

__all__ = ["Image"]


class Image:
    """Stands for the module `PIL.Image`."""

    class Image:
        """Stands for the class `PIL.Image.Image`."""

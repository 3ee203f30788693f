"""Configuration classes, as names only: the modules of the slice use them in annotations.

What vLLM reads from a model's configuration, the slice reads by attribute from whatever object the caller passes.
"""

__all__ = ["ModelConfig", "SpeculativeConfig", "StructuredOutputsConfig", "VllmConfig"]


class ModelConfig:
    """A name for annotations."""


class SpeculativeConfig:
    """A name for annotations."""


class StructuredOutputsConfig:
    """A name for annotations."""


class VllmConfig:
    """A name for annotations."""

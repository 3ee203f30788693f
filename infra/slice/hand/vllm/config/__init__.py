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


# replaces vllm 0.32.0: sha256:c62c0494361a2a9de9e5060849f295bb00f2065bf2c83faae4d59c4aa9ba5549
# replaces vllm 0.33.0: sha256:fab2438fb6fe24e0fd8f3f76bedb8e8c8a5748427003fd4fe9dd533084ba3028

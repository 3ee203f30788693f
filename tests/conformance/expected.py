"""How the suite's outputs fare: what vLLM's reading passes, by family and mode, and what repaired answers do not pass."""

MODES = {"one-shot": 0, "1": 1, "3": 3, "7": 7, "whole": None}
"""The modes by name: one-shot, and streams by so many tokens."""

# Outputs, and how many pass (but for white space at an end of the text) in each of the modes.
VLLM = {
    "deepseek": (85, 77, 74, 69, 64, 54),
    "gemma4": (48, 32, 35, 35, 35, 35),
    "glm": (51, 44, 45, 45, 45, 45),
    "gpt-oss": (51, 49, 49, 49, 49, 49),
    "kimi": (49, 44, 44, 44, 44, 43),
    "llama": (34, 32, 26, 26, 27, 11),
    "mistral": (47, 42, 42, 42, 42, 42),
    "qwen3-hermes": (50, 48, 44, 44, 44, 44),
    "qwen3-xml": (54, 49, 50, 50, 50, 50),
}

MARKER = "end markers stand inside an argument: which of them is the end would be a guess"
REASONS = {
    "gemma4/vllm-malformed-no-brace": "a call of a tool that was not offered stays a call, as with vLLM; audited as `unknown_tool`",
    "glm/glm45-marker-in-arguments": MARKER,
    "glm/glm47-marker-in-arguments": MARKER,
    "glm/glm47-missing-last-close-arg-value": "the last argument has no end; the call is shown as text",
    "gpt-oss/llamacpp-builtin-python-recipient": "code for a tool that was not offered is shown as text; the suite wants nothing of it",
    "gpt-oss/harmony-truncated-in-header": "a header that was cut is shown as text; the suite wants nothing of it",
    "kimi/k3-bug-response-only-completion": "the reasoning that the prompt opened never ends: where the answer begins would be a guess",
    "kimi/k3-control-marker-text-in-value": "an end marker inside an argument, told apart only by its tokens; the parser looks at text",
    "llama/l4-truncated-missing-close-bracket": "the first call of a list that was cut is whole, and shown",
    "mistral/llamacpp-ministral3-marker-in-reasoning": "a call inside the reasoning is a call, as with vLLM",
    "qwen3-xml/bug-missing-close-parameter-before-function": "the parameter has no end; the call is shown as text",
    "qwen3-xml/coder-marker-in-arguments": MARKER,
    "qwen3-xml/q38-marker-in-arguments": MARKER,
}
"""The outputs that repaired answers do not pass, in any mode, each with its reason. Where a right answer would be a
guess, none is made."""

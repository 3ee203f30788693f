"""Requests and outputs that many reports share."""

from tests.golden.corpus import Json
from tests.reports.service import user


def tool(name: str = "get_weather", **properties: Json) -> Json:
    parameters = {"type": "object", "properties": properties or {"city": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = [tool()]
BOTH = [tool(), tool("get_time", tz={"type": "string"})]
NAMED = {"type": "function", "function": {"name": "get_weather"}}
PARIS = ("get_weather", {"city": "Paris"})
CET = ("get_time", {"tz": "CET"})


def auto(*tools: Json, **fields: Json) -> Json:
    """A chat request with tools (the weather's, when none are given) that the model may call."""
    return user(tools=list(tools) or WEATHER, tool_choice="auto", **fields)


def hermes(name: str = "get_weather", arguments: str = '{"city": "Paris"}') -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def xml(body: str, name: str = "get_weather") -> str:
    return f"<tool_call>\n<function={name}>\n{body}\n</function>\n</tool_call>"


def qwen3_prompt(end: str = "") -> str:
    return f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{end}"

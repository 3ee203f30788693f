"""How each parser's model family writes reasoning, content and tool calls.

For generating outputs; nothing is parsed here. Every parser that vLLM 0.33.0 registers is listed, under each name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]


Calls = Sequence[Call]
Writer = Callable[[Calls], str]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def json_calls(opening: str, closing: str, key: str = "arguments") -> Writer:
    return lambda calls: "\n".join(opening + dump({"name": c.name, key: c.arguments}) + closing for c in calls)


def json_array(opening: str = "", closing: str = "", key: str = "arguments") -> Writer:
    return lambda calls: opening + dump([{"name": c.name, key: c.arguments} for c in calls]) + closing


def xml_calls(opening: str, closing: str, newline: str = "\n") -> Writer:
    def parameters(call: Call) -> str:
        return "".join(f"<parameter={k}>{newline}{plain(v)}{newline}</parameter>\n" for k, v in call.arguments.items())

    return lambda calls: "\n".join(
        f"{opening}\n<function={c.name}>\n{parameters(c)}</function>\n{closing}" for c in calls
    )


def key_value(before: str, after: str, separator: str = "\n", prefix: str = "", gap: str = "\n") -> Writer:
    def pairs(call: Call) -> str:
        return "".join(
            f"<{prefix}arg_key>{k}</{prefix}arg_key>{gap}<{prefix}arg_value>{plain(v)}</{prefix}arg_value>{gap}"
            for k, v in call.arguments.items()
        )

    return lambda calls: "\n".join(f"{before}{c.name}{separator}{pairs(c)}{after}" for c in calls)


def dsml(space: str, block: str) -> Writer:
    def parameters(call: Call) -> str:
        return "".join(
            f'<{space}parameter name="{k}" string="{"true" if isinstance(v, str) else "false"}">{plain(v)}'
            f"</{space}parameter>\n"
            for k, v in call.arguments.items()
        )

    return lambda calls: (
        f"<{space}{block}>\n"
        + "".join(f'<{space}invoke name="{c.name}">\n{parameters(c)}</{space}invoke>\n' for c in calls)
        + f"</{space}{block}>"
    )


def invokes(opening: str, closing: str, prefix: str = "", string: bool = False) -> Writer:
    def parameters(call: Call) -> str:
        return "".join(
            f'<{prefix}parameter name="{k}"' + (' string="true"' if string and isinstance(v, str) else "") + ">"
            f"{plain(v)}</{prefix}parameter>\n"
            for k, v in call.arguments.items()
        )

    return lambda calls: (
        f"{opening}\n"
        + "".join(f'<{prefix}invoke name="{c.name}">\n{parameters(c)}</{prefix}invoke>\n' for c in calls)
        + closing
    )


def python_calls(opening: str, closing: str, separator: str = ", ") -> Writer:
    def call(c: Call) -> str:
        return f"{c.name}({', '.join(f'{k}={v!r}' for k, v in c.arguments.items())})"

    return lambda calls: opening + separator.join(map(call, calls)) + closing


def deepseek_v3(calls: Calls) -> str:
    return (
        "<｜tool▁calls▁begin｜>"
        + "\n".join(
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{c.name}\n```json\n{dump(c.arguments)}\n```<｜tool▁call▁end｜>"
            for c in calls
        )
        + "<｜tool▁calls▁end｜>"
    )


def deepseek_v31(calls: Calls) -> str:
    return (
        "<｜tool▁calls▁begin｜>"
        + "".join(f"<｜tool▁call▁begin｜>{c.name}<｜tool▁sep｜>{dump(c.arguments)}<｜tool▁call▁end｜>" for c in calls)
        + "<｜tool▁calls▁end｜>"
    )


def gemma_value(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{gemma_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(gemma_value, value)) + "]"
    return dump(value)


def gemma4(calls: Calls) -> str:
    return "".join(
        f"<|tool_call>call:{c.name}{{"
        + ",".join(f"{k}:{gemma_value(v)}" for k, v in c.arguments.items())
        + "}<tool_call|>"
        for c in calls
    )


def functiongemma(calls: Calls) -> str:
    return "".join(
        f"<start_function_call>call:{c.name}{{"
        + ",".join(f"{k}:<escape>{plain(v)}<escape>" for k, v in c.arguments.items())
        + "}<end_function_call>"
        for c in calls
    )


def kimi_k2(calls: Calls) -> str:
    return (
        "<|tool_calls_section_begin|>"
        + "".join(
            f"<|tool_call_begin|>functions.{c.name}:{i}<|tool_call_argument_begin|>{dump(c.arguments)}<|tool_call_end|>"
            for i, c in enumerate(calls)
        )
        + "<|tool_calls_section_end|>"
    )


def kimi_k3(calls: Calls) -> str:
    def arguments(call: Call) -> str:
        return "".join(
            f'<|open|>argument key="{k}" type="{"string" if isinstance(v, str) else "object"}"<|sep|>{plain(v)}<|close|>argument<|sep|>'
            for k, v in call.arguments.items()
        )

    return (
        "<|open|>tools<|sep|>"
        + "".join(
            f'<|open|>call tool="{c.name}" index="{i}"<|sep|>{arguments(c)}<|close|>call<|sep|>'
            for i, c in enumerate(calls, 1)
        )
        + "<|close|>tools<|sep|><|close|>message<|sep|>"
    )


def plamo3(calls: Calls) -> str:
    def marked(name: str, text: str) -> str:
        return f"<|plamo:begin_{name}:plamo|>{text}<|plamo:end_{name}:plamo|>"

    def arguments(call: Call) -> str:
        return marked("tool_arguments", "<|plamo:constrain|>json<|plamo:msg|>" + dump(call.arguments))

    return marked(
        "tool_requests",
        "".join(marked("tool_request", marked("tool_name", c.name) + arguments(c)) for c in calls),
    )


def muse(calls: Calls) -> str:
    def parameters(call: Call) -> str:
        return "".join(f'<atem:parameter name="{k}">{plain(v)}</atem:parameter>' for k, v in call.arguments.items())

    return "".join(
        f"<|start|>assistant to={c.name}<|message|><atem:function_calls>"
        f'<atem:invoke name="{c.name}">{parameters(c)}</atem:invoke></atem:function_calls><|eom|>'
        for c in calls
    )


def inkling(calls: Calls) -> str:
    return "".join(
        "<|message_model|><|content_invoke_tool_json|>"
        + dump({"name": c.name, "args": c.arguments})
        + "<|end_message|>"
        for c in calls
    )


def mistral(calls: Calls) -> str:
    return "".join(f"[TOOL_CALLS]{c.name}[ARGS]{dump(c.arguments)}" for c in calls)


def step3(calls: Calls) -> str:
    def parameters(call: Call) -> str:
        return "".join(
            f'<steptml:parameter name="{k}">{plain(v)}</steptml:parameter>' for k, v in call.arguments.items()
        )

    return (
        "<｜tool_calls_begin｜>"
        + "".join(
            f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{c.name}">{parameters(c)}</steptml:invoke>'
            "<｜tool_call_end｜>"
            for c in calls
        )
        + "<｜tool_calls_end｜>"
    )


def minimax_m3(calls: Calls) -> str:
    mark = "]<]minimax[>["

    def element(name: str, value: Any) -> str:
        if isinstance(value, dict):
            inner = "".join(element(k, v) for k, v in value.items())
        elif isinstance(value, list):
            inner = "".join(element("item", v) for v in value)
        else:
            inner = plain(value)
        return f"{mark}<{name}>{inner}{mark}</{name}>"

    return (
        f"{mark}<tool_call>"
        + "".join(
            f'{mark}<invoke name="{c.name}">'
            + "".join(element(k, v) for k, v in c.arguments.items())
            + f"{mark}</invoke>"
            for c in calls
        )
        + f"{mark}</tool_call>"
    )


def apertus(calls: Calls) -> str:
    return "<|tools_prefix|>" + dump([{c.name: c.arguments} for c in calls]) + "<|tools_suffix|>"


def harmony(calls: Calls) -> str:
    return "".join(
        f"<|start|>assistant<|channel|>commentary to=functions.{c.name} <|constrain|>json<|message|>{dump(c.arguments)}<|call|>"
        for c in calls
    )


hermes = json_calls("<tool_call>\n", "\n</tool_call>")
qwen_xml = xml_calls("<tool_call>", "</tool_call>")
glm = key_value("<tool_call>", "</tool_call>")
poolside = key_value("<tool_call>", "</tool_call>")


def hy(calls: Calls) -> str:
    return "<tool_calls>" + key_value("<tool_call>", "</tool_call>", "<tool_sep>", gap="")(calls) + "</tool_calls>"


def hy_v4(calls: Calls) -> str:
    return "<tool_calls>" + key_value("<tool_call>", "</tool_call>", "", gap="")(calls) + "</tool_calls>"


def ernie45(calls: Calls) -> str:
    return "\n".join(f"<tool_call>\n{dump({'name': c.name, 'arguments': c.arguments})}\n</tool_call>" for c in calls)


TOOL_WRITERS: dict[str, Writer] = {
    "apertus": apertus,
    "beam": hermes,
    "cohere_command3": hermes,
    "cohere_command4": hermes,
    "deepseek_v3": deepseek_v3,
    "deepseek_v31": deepseek_v31,
    "deepseek_v32": dsml("｜DSML｜", "function_calls"),
    "deepseek_v4": dsml("｜DSML｜", "tool_calls"),
    "deepseek_v41": dsml("｜DSML｜ ", "calls"),
    "dots": invokes("<dots_function_call>", "</dots_function_call>"),
    "ernie45": ernie45,
    "functiongemma": functiongemma,
    "gemma4": gemma4,
    "gigachat3": lambda calls: (
        "<|message_sep|>\n\nfunction call<|role_sep|>\n"
        + dump({"name": calls[0].name, "arguments": calls[0].arguments})
    ),
    "glm45": glm,
    "glm47": glm,
    "granite": json_array("<|tool_call|>"),
    "granite-20b-fc": json_calls("<function_call> ", ""),
    "granite4": hermes,
    "hermes": hermes,
    "hf": hermes,
    "hunyuan_a13b": json_array("<tool_calls>", "</tool_calls>"),
    "hy_v3": hy,
    "hy_v4": hy_v4,
    "inkling": inkling,
    "internlm": lambda calls: (
        "<|action_start|><|plugin|>"
        + dump({"name": calls[0].name, "parameters": calls[0].arguments})
        + "<|action_end|>"
    ),
    "jamba": json_array("<tool_calls>", "</tool_calls>"),
    "k2_horizon": lambda calls: (
        "<ifm|tool_calls>"
        + key_value("<ifm|tool_call>", "</ifm|tool_call>", "", prefix="ifm|", gap="")(calls)
        + "</ifm|tool_calls>"
    ),
    "kimi_k2": kimi_k2,
    "kimi_k3": kimi_k3,
    "lfm2": python_calls("<|tool_call_start|>[", "]<|tool_call_end|>"),
    "ling3": glm,
    "llama3_json": lambda calls: "; ".join(dump({"name": c.name, "parameters": c.arguments}) for c in calls),
    "llama4_json": lambda calls: (
        "<|python_tag|>" + "; ".join(dump({"name": c.name, "parameters": c.arguments}) for c in calls)
    ),
    "llama4_pythonic": python_calls("<|python_start|>[", "]<|python_end|>"),
    "longcat": json_calls("<longcat_tool_call>", "</longcat_tool_call>"),
    "mimo": xml_calls("<tool_call>", "</tool_call>", ""),
    "minicpm5": lambda calls: "\n".join(
        f'<function name="{c.name}">'
        + "".join(f'<param name="{k}">{plain(v)}</param>' for k, v in c.arguments.items())
        + "</function>"
        for c in calls
    ),
    "minimax_m2": invokes("<minimax:tool_call>", "</minimax:tool_call>"),
    "minimax_m3": minimax_m3,
    "mistral": mistral,
    "muse": muse,
    "muse_glimmer": muse,
    "musespark1x": muse,
    "olmo3": python_calls("<function_calls>", "</function_calls>", "\n"),
    "openai": harmony,
    "phi4_mini_json": json_array("functools"),
    "plamo3": plamo3,
    "poolside_v1": poolside,
    "pythonic": python_calls("[", "]"),
    "qwen3_coder": qwen_xml,
    "qwen3_json": hermes,
    "qwen3_xml": qwen_xml,
    "seed_oss": xml_calls("<seed:tool_call>", "</seed:tool_call>"),
    "step3": step3,
    "step3p5": qwen_xml,
    "step5": qwen_xml,
    "xlam": json_array(),
}

# The parsers of bare text whose calls must stand alone, without content before them.
ALONE = frozenset(
    {"llama3_json", "llama4_json", "llama4_pythonic", "olmo3", "pythonic", "granite-20b-fc", "xlam", "hunyuan_a13b"}
)

# Opening and closing of reasoning, by parser; what is not here is written in think tags.
REASONING: dict[str, tuple[str, str]] = {
    "gemma4": ("<|channel>thought\n", "<channel|>"),
    "granite": ("Here is my thought process:", "Here is my response:"),
    "hunyuan_a13b": ("<think>\n", "\n</think>\n<answer>\n"),
    "inkling": ("<|content_thinking|>", "<|end_message|><|message_model|><|content_text|>"),
    "k2_horizon": ("<ifm|think>", "</ifm|think>"),
    "kimi_k3": ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),
    "minimax_m3": ("<mm:think>", "</mm:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
    "muse": ("to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    "muse_glimmer": ("to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    "musespark1x": ("to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    "openai_gptoss": ("<|channel|>analysis<|message|>", "<|end|>"),
    "plamo3": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "seed_oss": ("<seed:think>", "</seed:think>"),
}
THINK = ("<think>", "</think>")
# Likewise for content, where it has marks of its own.
CONTENT: dict[str, tuple[str, str]] = {
    "openai_gptoss": ("<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
}

# What a checkpoint's tokenizer tells the parsers that read its format there.
RESPONSE_TEMPLATE: dict[str, Any] = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "content": {},
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "repeats": True,
            "transform": {
                "type": "function",
                "function": {"name": "{content.name}", "arguments": "{content.arguments}"},
            },
        },
    },
}

# Pairs as they are deployed, beside each parser alone and each with the one of its own name.
PAIRS: tuple[tuple[str, str], ...] = (
    ("hermes", "qwen3"),
    ("qwen3_coder", "qwen3"),
    ("qwen3_xml", "qwen3"),
    ("qwen3_coder", "nemotron_v3"),
    ("qwen3_coder", "minicpmv"),
    ("qwen3_coder", "deepseek_r1"),
    ("hermes", "deepseek_r1"),
    ("hermes", "granite"),
    ("granite", "granite_thinking_parser"),
    ("deepseek_v3", "deepseek_r1"),
    ("deepseek_v31", "deepseek_v3"),
    ("deepseek_v32", "deepseek_v3"),
    ("minimax_m2", "minimax_m2_append_think"),
    ("step5", "step5"),
    ("llama3_json", "qwen3"),
    ("pythonic", "deepseek_r1"),
    ("xlam", "deepseek_r1"),
    ("internlm", "qwen3"),
    ("jamba", "holo2"),
    ("phi4_mini_json", "step3"),
    ("lfm2", "deepseek_r1"),
    ("longcat", "deepseek_r1"),
    ("granite4", "qwen3"),
)

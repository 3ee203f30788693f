"""What the comparison feeds to both sides: tools, requests, model outputs, templates, conversations."""

import json
from pathlib import Path

# In this order: the first folder whose tokenizer has a parser's tokens is the one that it is run with.
FOLDERS = ("families", "qwen3", "qwen3.5", "deepseek", "llama3", "gpt-oss", "mistral-spm")
# vLLM reads these with harmony on its model alone; elsewhere they are stubs that refuse to parse.
HARMONY_FOLDER = "gpt-oss"
HARMONY_PARSERS = {"openai", "openai_gptoss"}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "w",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "opts": {"type": "object", "properties": {"x": {"type": "boolean"}}},
                    "l": {"type": "array", "items": {"type": "number"}},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
    },
    {
        "type": "function",
        "function": {
            "name": "strict_one",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    },
]
RESPONSES_TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": TOOLS[0]["function"]["parameters"], "strict": True},
    {"type": "custom", "name": "c", "description": "d"},
]
TOOL_CHOICES = ("auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}}, None)
RESPONSES_TOOL_CHOICES = (
    "auto",
    "required",
    {"type": "function", "name": "get_weather"},
    {"type": "custom", "name": "c"},
    "none",
)
MESSAGES = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "functions.search:0", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "functions.search:0", "content": "r"},
]

_CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
TEXTS = [
    "Hello, world! 日本語 🎉",
    "<think>step one</think>The answer is 4.",
    "thinking only",
    f"<tool_call>\n{_CALL}\n</tool_call>",
    f'<think>I need it</think>\n\n<tool_call>\n{_CALL}\n</tool_call>\n<tool_call>\n{{"name": "search", '
    '"arguments": {"query": "a \\"b\\""}}\n</tool_call>',
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
    "</function>\n</tool_call>",
    '[get_weather(city="Bern", days=2), search(query="x")]',
    '{"name": "get_weather", "parameters": {"city": "Lima"}}',
    '[{"name": "get_weather", "parameters": {"city": "Kyiv"}}]',
    f'[{_CALL}, {{"name":"search","arguments":{{}}}}]',
    '<tool_call>\n{"name": "get_weather", "argu',
    "text before <tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Nice</arg_value>\n</tool_call> after",
    '{"city": "Berlin"}',
    "",
]
# Outputs of each parser's own format, by "folder|tool parser|reasoning parser".
OUTPUTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("outputs.json").read_text(encoding="utf-8"))

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_PATTERNS = {"type": "object", "patternProperties": {"^a": {"type": "string"}}}
_TAG = {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</a>"}
_STRUCTURE = {"begin": "<a>", "schema": SCHEMA, "end": "</a>"}
# Request fields that change what `adjust_request` does.
CONSTRAINTS = [
    {},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    {"response_format": {"type": "text"}},
    {"structured_outputs": {"regex": "[a-z]+"}},
    {"structured_outputs": {"choice": ["a", 'b " c']}},
    {"structured_outputs": {"grammar": 'root ::= "a" | "b"'}},
    {"structured_outputs": {"grammar": 'start: "a" | "b"\n'}},
    {"structured_outputs": {"grammar": "?start: ]["}},
    {"structured_outputs": {"json": SCHEMA}},
    {"structured_outputs": {"json_object": True}},
    {"response_format": {"type": "structural_tag", "structures": [_STRUCTURE], "triggers": ["<a"]}},
    {"response_format": {"type": "structural_tag", "format": _TAG}},
    {"structured_outputs": {"regex": "(unclosed"}},
    {"response_format": {"type": "structural_tag", "format": {"type": "nope"}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _PATTERNS}}},
    {"parallel_tool_calls": False},
    {"parallel_tool_calls": False, "response_format": {"type": "json_object"}},
]
STRICT_LEVELS = ("auto", "function", "parameter", "x")

CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ],
    [
        {"role": "developer", "content": "D"},
        {"role": "user", "content": "u"},
        {"role": "system", "content": "late"},
    ],
    [
        {"role": "user", "content": "w?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "hm",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Paris", "é": "<&>\'"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "sun ☀"},
        {"role": "user", "content": "thanks"},
    ],
    [{"role": "user", "content": "q"}, {"role": "assistant", "content": "partial answer "}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}],
    [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}]}],
    [{"role": "user", "content": [{"type": "prompt_embeds", "data": "AAAA"}]}],
    [{"role": "user", "content": [{"type": "image_embeds", "image_embeds": "AAAA"}]}],
    [{"role": "user", "content": [{"type": "audio_embeds", "audio_embeds": "AAAA"}]}],
    [
        {
            "role": "user",
            "content": [{"type": "refusal", "refusal": "no"}, {"type": "thinking", "thinking": "x"}, "bare"],
        }
    ],
    [{"role": "user", "content": [{"type": "hologram", "x": 1}]}],
    [{"role": "assistant", "content": "x", "reasoning_content": "r"}, {"role": "user", "content": "y", "name": "bob"}],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": "", "tool_calls": []}],
    [],
]
TEMPLATE_OPTIONS = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"continue_final_message": True},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"documents": [{"title": "t", "text": "x"}]},
    {"chat_template_x": 1, "add_generation_prompt": True},
]
TEMPLATES = [
    None,
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] | tojson }}\n{% endfor %}",
    "{%- for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% generation %}{{m.content}}"
    "{% endgeneration %}{% if m.role=='tool' %}{% break %}{% endif %}{%- endfor %}X",
    "{{ raise_exception('nope ' + messages[0]['role']) }}",
    "{{ messages.append(1) }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ strftime_now('%Y')|length }}",
    "{% if",
    "{{ tools | tojson(indent=2) if tools else 'none' }}"
    "{{ messages[0] | tojson(separators=(',',':'),sort_keys=true,ensure_ascii=true) }}",
    "{{ bos_token }}|{{ undefined_thing }}|{{ messages[-1].content }}\n  {% set x = 1 %}  \n  end",
    "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}",
    "{{ namespace(a=1).a }}{% set ns = namespace(rest=messages) %}{% for m in ns.rest %}{{ m.content }}{% endfor %}",
    "{{ 1/0 }}",
    "{{ messages[0].content.upper() | trim | replace('H','J') | list | join(',') }}{{ range(3)|list }}",
]

_USER = {"messages": [{"role": "user", "content": "x"}]}
CHAT_REQUESTS = [
    {},
    {"model": 1},
    {"messages": "x"},
    {"messages": [{"role": "user"}]},
    {"messages": [{"role": "alien", "content": 1}]},
    {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
    {"messages": [1]},
    {"messages": [{"content": "x"}]},
    {"messages": [{"author": {"role": "user"}, "content": [{"type": "text", "text": "x"}]}]},
    {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
    {**_USER, "tools": [{"type": "function"}]},
    {**_USER, "tool_choice": "auto"},
    {**_USER, "tool_choice": {"type": "function", "function": {"name": "nope"}}, "tools": TOOLS},
    {**_USER, "logprobs": True, "top_logprobs": -5},
    {**_USER, "temperature": "hot"},
    {**_USER, "temperature": -1},
    {**_USER, "top_p": 2},
    {**_USER, "n": 0},
    {**_USER, "n": 999999999},
    {**_USER, "stream_options": {"include_usage": True}},
    {**_USER, "stream": True, "stream_options": {"include_usage": 1}},
    {**_USER, "structured_outputs": {"regex": "a", "json": {}}},
    {**_USER, "extra_thing": 1},
    {**_USER, "reasoning_effort": "max"},
    {**_USER, "reasoning_effort": "none", "n": 3, "seed": 1, "logit_bias": {"5": 1}, "stop": ["a"], "min_tokens": 1},
    {**_USER, "thinking_token_budget": -5},
    {**_USER, "media_io_kwargs": {"image": {"a": 1}}},
    {**_USER, "prompt_logprobs": -1},
    {**_USER, "cache_salt": ""},
    {**_USER, "response_format": {"type": "json_schema"}},
    {**_USER, "logprob_token_ids": [1, 2]},
    {**_USER, "vllm_xargs": {"a": "b"}},
    {**_USER, "kv_transfer_params": {"a": 1}, "return_token_ids": True},
]
COMPLETION_REQUESTS = [
    {},
    {"prompt": "x"},
    {"prompt": [1, 2]},
    {"prompt": [[1], [2]]},
    {"prompt": 1},
    {"prompt": "x", "logprobs": 3, "echo": True},
    {"prompt": "x", "logprobs": -3},
    {"prompt": "x", "suffix": "s"},
    {"prompt": "x", "stream_options": {}},
    {"prompt": "x", "response_format": {"type": "json_object"}},
    {"prompt": "x", "max_tokens": 0, "temperature": 0},
    {"prompt_embeds": "AAA="},
    {"prompt": [-1]},
    {"prompt": "x", "truncate_prompt_tokens": -1},
    {"prompt": "x", "structured_outputs": {"choice": ["a"]}},
]
_LOGPROBS = {"content": [{"token_id": 5, "logprob": -0.1, "top_logprobs": []}]}
OTHER_BODIES = [
    {},
    {"token_ids": [1, 2], "sampling_params": {"temperature": 0.5, "max_tokens": 3}},
    {"token_ids": [1], "sampling_params": {"n": "x"}},
    {"token_ids": [1], "sampling_params": {"bogus": 1}},
    {
        "request_id": "r",
        "choices": [{"index": 0, "token_ids": [1, 2], "finish_reason": "stop", "logprobs": _LOGPROBS}],
    },
    {"request_id": "r", "choices": [{"index": 0, "token_ids": [-1]}]},
    {"prompt": "x", "model": "m"},
    _USER,
    {"tokens": [1, 2]},
]

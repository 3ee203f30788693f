"""Runs vLLM's parsing and rendering over many inputs and writes every result, one JSON line a case.

The same script runs in both environments, so that `compare.py` can set the slice against full vLLM:

    python tests/slice/parity/probe.py --models FOLDER --out slice.jsonl.gz
    python tests/slice/parity/compare.py full.jsonl.gz slice.jsonl.gz
"""

import argparse
import asyncio
import copy
import dataclasses
import gzip
import importlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import environment
import inputs

logging.disable(logging.CRITICAL)

Case = tuple[str, Callable[[], Any]]
Pair = tuple[str | None, str | None]
PARTS = ("compose", "parse", "adjust", "responses", "render", "harmony", "protocol")


def plain(value: Any) -> Any:
    """A result as JSON, with the names of its classes."""
    if hasattr(value, "model_dump"):
        out = {"@": type(value).__name__, **plain(value.model_dump(mode="json"))}
        private = getattr(value, "__pydantic_private__", None)
        return {**out, "_private": plain(private)} if private else out
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {"@": type(value).__name__, **{f.name: plain(getattr(value, f.name, None)) for f in fields}}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return environment.without_addresses(repr(value))


def outcome(run: Callable[[], Any]) -> Any:
    """What a case gives: its result, or the error and its cause."""
    environment.settle()
    try:
        return plain(run())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if error.__cause__ is not None:
            text += f" <- {type(error.__cause__).__name__}: {error.__cause__}"
        return {"error": environment.without_addresses(text)}


class Probe:
    """The cases, for one folder of models. With `sample`, about a tenth of them."""

    def __init__(self, models: Path, sample: bool) -> None:
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        self.models = models
        self.sample = sample
        self.version = environment.version()
        self._tokenizers: dict[str, Any] = {}
        tools = sorted(ToolParserManager.list_registered())
        reasoning = sorted(ReasoningParserManager.list_registered())
        pairs: list[Pair] = [(t, None) for t in tools]
        pairs += [(None, r) for r in reasoning]
        pairs += [(t, r) for t in tools for r in reasoning if t.split("_")[0] == r.split("_")[0]]
        for key in inputs.OUTPUTS:
            _, tool, parser = key.split("|")
            pairs.append((None if tool == "None" else tool, None if parser == "None" else parser))
        self.pairs = list(dict.fromkeys(pairs))
        # The folder that each pair is run with.
        self.usable: dict[Pair, str] = {}

    def tokenizer(self, folder: str) -> Any:
        if folder not in self._tokenizers:
            self._tokenizers[folder] = environment.load_tokenizer(self.models / folder)
        return self._tokenizers[folder]

    def parser(self, pair: Pair, folder: str) -> Any:
        from vllm.parser import ParserManager

        options: dict[str, Any] = {} if self.version < (0, 32) else {"tokenizer": self.tokenizer(folder)}
        return ParserManager.get_parser(
            *pair,
            enable_auto_tools=True,
            model_name=folder,
            is_harmony=folder == inputs.HARMONY_FOLDER,
            **options,
        )

    def composed(self, step: int = 1) -> Iterator[tuple[Pair, str, Any]]:
        """Pair, folder and class, each composed when its turn comes: vLLM keeps harmony's parsers on one class."""
        for pair, folder in list(self.usable.items())[::step]:
            yield pair, folder, self.parser(pair, folder)

    def chat_request(self, tool_choice: Any, fields: dict[str, Any]) -> Any:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        body = {"model": "m", "messages": inputs.MESSAGES, "tools": inputs.TOOLS, **fields}
        if tool_choice is not None:
            body["tool_choice"] = tool_choice
        return ChatCompletionRequest.model_validate(copy.deepcopy(body))

    def texts(self, pair: Pair, folder: str) -> list[str]:
        own = inputs.OUTPUTS.get(f"{folder}|{pair[0]}|{pair[1]}", [])
        return own[:1] + inputs.TEXTS[4:5] if self.sample else own + inputs.TEXTS

    # -- parts ----------------------------------------------------------------------------------------------------

    def compose(self) -> Iterator[Case]:
        for pair in self.pairs:
            preferred = [key.split("|")[0] for key in inputs.OUTPUTS if key.endswith(f"|{pair[0]}|{pair[1]}")]
            if inputs.HARMONY_PARSERS & set(pair):
                preferred.insert(0, inputs.HARMONY_FOLDER)
            for folder in dict.fromkeys([*preferred, *inputs.FOLDERS]):

                def run(pair: Any = pair, folder: str = folder) -> Any:
                    found = self.parser(pair, folder)
                    self.usable.setdefault(pair, folder)
                    return [each.__name__ for each in found.__mro__]

                yield f"compose {pair[0]}|{pair[1]} {folder}", run

    def parse(self) -> Iterator[Case]:
        # A model type whose tool call ids are counted, so that counting is compared as well.
        config = SimpleNamespace(
            hf_config=SimpleNamespace(model_type="kimi_k2"), hf_text_config=None, hf_overrides=None, model="m"
        )
        for pair, folder, parser_class in self.composed():
            tokenizer = self.tokenizer(folder)
            for number, text in enumerate(self.texts(pair, folder)):
                ids = list(tokenizer.encode(text, add_special_tokens=False))
                choices = inputs.TOOL_CHOICES[:3:2] if self.sample else inputs.TOOL_CHOICES
                for choice_number, tool_choice in enumerate(choices):
                    for thinking in ({},) if choice_number else ({}, {"enable_thinking": False}):

                        def make(thinking: Any = thinking, tool_choice: Any = tool_choice, cls: Any = parser_class,
                                 tokenizer: Any = tokenizer) -> Any:  # fmt: skip
                            request = self.chat_request(tool_choice, {})
                            options = {"model_config": config, "chat_template_kwargs": thinking}
                            return request, cls(tokenizer, request.tools, **options)

                        label = f"{pair[0]}|{pair[1]} {folder} output {number} choice {choice_number} {thinking}"
                        yield f"parse {label}", lambda m=make, i=ids, t=tokenizer: self._one_shot(m, i, t)
                        for size in (1, 3) if not choice_number else (1,):
                            yield (
                                f"stream by {size} {label}",
                                lambda m=make, i=ids, t=tokenizer, s=size: self._stream(m, i, t, s),
                            )

    def _one_shot(self, make: Callable[[], Any], ids: list[int], tokenizer: Any) -> Any:
        request, parser = make()
        text = tokenizer.decode(ids, skip_special_tokens=False) if ids else ""
        result = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        return [result, parser.count_reasoning_tokens(ids)]

    def _stream(self, make: Callable[[], Any], ids: list[int], tokenizer: Any, size: int) -> Any:
        from vllm.tokenizers.detokenizer_utils import detokenize_incrementally

        request, parser = make()
        step = self._stepper(request, parser)
        prompt = list(tokenizer.encode("hi there", add_special_tokens=False))
        tokens: list[str] | None = None
        prefix = read = 0
        steps = []
        chunks = [ids[start : start + size] for start in range(0, len(ids), size)] or [[]]
        for number, chunk in enumerate(chunks):
            text = ""
            for token_id in chunk:
                known = [*prompt, token_id] if tokens is None else [token_id]
                new, piece, prefix, read = detokenize_incrementally(
                    tokenizer, known, tokens, prefix, read, skip_special_tokens=False
                )
                tokens = new if tokens is None else tokens + new
                text += piece
            last = number == len(chunks) - 1
            steps.append(step(text, chunk, "stop" if last else None, prompt))
        return steps

    def _stepper(self, request: Any, parser: Any) -> Callable[..., Any]:
        """What a chunk goes through: the server's own assembly where full vLLM has it apart, else the parser alone."""
        if self.version >= (0, 33):
            from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor

            step: Callable[..., Any] = ChatStreamProcessor(
                request, parser, enable_auto_tools=True, parser_cls=type(parser)
            ).step
            return step
        return lambda text, ids, finish_reason, prompt: parser.parse_delta(
            delta_text=text,
            delta_token_ids=ids,
            request=request,
            prompt_token_ids=prompt,
            finished=finish_reason is not None,
        )

    def adjust(self) -> Iterator[Case]:
        from vllm.parser import ParserManager

        for pair, folder, parser_class in self.composed():
            constraints = list(enumerate(inputs.CONSTRAINTS))
            for number, fields in constraints[::3] if self.sample else constraints:
                for choice_number, tool_choice in enumerate(inputs.TOOL_CHOICES[: 1 if self.sample else None]):

                    def run(fields: Any = fields, tool_choice: Any = tool_choice, cls: Any = parser_class,
                            folder: str = folder) -> Any:  # fmt: skip
                        request = self.chat_request(tool_choice, fields)
                        adjusted = cls(self.tokenizer(folder), request.tools).adjust_request(request)
                        return [adjusted, repr(adjusted.to_sampling_params(100, {}))]

                    yield f"adjust {pair[0]}|{pair[1]} {folder} fields {number} choice {choice_number}", run
        for pair, folder in list(self.usable.items())[::5]:
            for level in inputs.STRICT_LEVELS:

                def strict(level: str = level, pair: Any = pair, folder: str = folder) -> Any:
                    cls = ParserManager.get_parser(*pair, enable_auto_tools=True, tool_strict_level=level)
                    request = self.chat_request("auto", {})
                    return cls(self.tokenizer(folder), request.tools).adjust_request(request)

                yield f"adjust {pair[0]}|{pair[1]} {folder} strict {level}", strict

    def responses(self) -> Iterator[Case]:
        from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

        constraint = {"text": {"format": {"type": "json_schema", "name": "x", "schema": inputs.SCHEMA}}}
        history = [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
        ]
        for pair, folder, parser_class in self.composed(9 if self.sample else 1):
            for choice_number, tool_choice in enumerate(inputs.RESPONSES_TOOL_CHOICES):
                for number, fields in enumerate(({}, constraint)):

                    def run(fields: Any = fields, tool_choice: Any = tool_choice, cls: Any = parser_class,
                            folder: str = folder) -> Any:  # fmt: skip
                        body = {"model": "m", "input": history, "tools": inputs.RESPONSES_TOOLS, "request_id": "r",
                                "tool_choice": tool_choice, **fields}  # fmt: skip
                        request = ResponsesRequest.model_validate(copy.deepcopy(body))
                        parser = cls(self.tokenizer(folder), request.tools)
                        adjusted = parser.adjust_request(request)
                        text = inputs.TEXTS[4]
                        ids = list(self.tokenizer(folder).encode(text, add_special_tokens=False))
                        result = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
                        return [adjusted, result]

                    yield f"responses {pair[0]}|{pair[1]} {folder} fields {number} choice {choice_number}", run

    def render(self) -> Iterator[Case]:
        from vllm.renderers import hf

        place = "vllm.entrypoints.chat_utils" if self.version < (0, 32) else "vllm.renderers.chat_utils"
        chat_utils = importlib.import_module(place)
        parse_chat_messages = chat_utils.parse_chat_messages
        parse_chat_messages_async = chat_utils.parse_chat_messages_async

        options = dict.fromkeys(("enable_thinking", "tools", "padding", "zzz", "documents", "max_length"), 1)
        for folder in inputs.FOLDERS[:: 3 if self.sample else 1]:
            config = environment.model_config(folder)
            tokenizer = environment.template_tokenizer(self.tokenizer(folder))
            for template_number, template in enumerate(inputs.TEMPLATES):
                yield (
                    f"render {folder} template {template_number} format",
                    lambda t=template, k=tokenizer, c=config: hf.resolve_chat_template_content_format(
                        t, None, "auto", k, model_config=c
                    ),
                )
                yield (
                    f"render {folder} template {template_number} options",
                    lambda t=template, k=tokenizer, c=config: hf.resolve_chat_template_kwargs(
                        k, t or hf.resolve_chat_template(k, None, None, model_config=c), options
                    ),
                )
                for conversation_number, messages in enumerate(inputs.CONVERSATIONS):
                    for option_number, chosen in enumerate(inputs.TEMPLATE_OPTIONS):
                        if (template or self.sample) and option_number not in (1, 3, 4):
                            continue
                        for form in ("openai",) if self.sample else ("string", "openai"):

                            def run(messages: Any = messages, chosen: Any = chosen, form: Any = form,
                                    t: Any = template, k: Any = tokenizer, c: Any = config) -> Any:  # fmt: skip
                                given = copy.deepcopy(messages)
                                parsed = asyncio.run(parse_chat_messages_async(given, c, content_format=form))
                                # The synchronous parser fetches media before it refuses them: only text is the same.
                                assert parse_chat_messages(copy.deepcopy(messages), c, content_format=form) == parsed
                                kwargs = {**copy.deepcopy(chosen), "chat_template": t, "tokenize": False}
                                return [*parsed, hf.safe_apply_chat_template(c, k, parsed[0], **kwargs)]

                            yield (
                                f"render {folder} template {template_number} conversation {conversation_number} "
                                f"options {option_number} {form}",
                                run,
                            )

    def harmony(self) -> Iterator[Case]:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
        from vllm.entrypoints.openai.parser import harmony_utils

        tools = [ChatCompletionToolsParam.model_validate(tool) for tool in inputs.TOOLS]
        for number, messages in enumerate(inputs.CONVERSATIONS[:5]):
            for effort in (None, "low", "high"):
                for given in (None, tools):

                    def run(messages: Any = messages, effort: Any = effort, given: Any = given) -> Any:
                        system = harmony_utils.get_system_message(
                            reasoning_effort=effort, with_custom_tools=given is not None
                        )
                        developer = harmony_utils.get_developer_message(instructions="I", tools=given)
                        rest = harmony_utils.parse_chat_inputs_to_harmony_messages(copy.deepcopy(messages))
                        whole = [system, developer, *rest]
                        return [harmony_utils.render_for_completion(whole), [repr(each) for each in whole]]

                    yield f"harmony {number} {effort} {given is not None}", run

    def protocol(self) -> Iterator[Case]:
        modules = [
            importlib.import_module(f"vllm.entrypoints.{name}.protocol")
            for name in (
                "openai.chat_completion",
                "openai.completion",
                "scale_out.token_in_token_out",
                "serve.engine",
                "serve.tokenize",
                "generate.base",
            )
        ]
        models: dict[str, Any] = {}
        for module in modules:
            for name, value in sorted(vars(module).items()):
                if (
                    isinstance(value, type)
                    and hasattr(value, "model_json_schema")
                    and value.__module__ == module.__name__
                ):
                    models[f"{module.__name__}.{name}"] = value
        for name, model in models.items():
            for mode in ("validation", "serialization"):
                yield f"protocol {name} schema {mode}", lambda m=model, mode=mode: m.model_json_schema(mode=mode)
            for number, body in enumerate(inputs.OTHER_BODIES):
                yield f"protocol {name} body {number}", lambda m=model, b=body: m.model_validate(copy.deepcopy(b))
        for kind, bodies in (("chat_completion", inputs.CHAT_REQUESTS), ("completion", inputs.COMPLETION_REQUESTS)):
            classes = {"chat_completion": "ChatCompletionRequest", "completion": "CompletionRequest"}
            request_class = models[f"vllm.entrypoints.openai.{kind}.protocol.{classes[kind]}"]
            for number, body in enumerate(bodies):

                def run(body: Any = body, request_class: Any = request_class) -> Any:
                    request = request_class.model_validate({"model": "m", **copy.deepcopy(body)})
                    defaults = {"temperature": 0.3, "top_k": 5}
                    parameters = outcome(lambda: repr(request.to_sampling_params(50, defaults)))
                    if hasattr(request, "build_chat_params"):
                        return [request, parameters, outcome(lambda: request.build_chat_params(None, "auto"))]
                    return [request, parameters]

                yield f"protocol {kind} request {number}", run


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--models", type=Path, required=True, help="the folder of the model folders")
    arguments.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file")
    arguments.add_argument("--sample", action="store_true", help="about a tenth of the cases")
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = arguments.parse_args()
    # The project's own packages, for the tokenizer of the slice's side.
    sys.path.append(str(Path(__file__).parents[3]))
    probe = Probe(options.models, options.sample)
    with gzip.GzipFile(options.out, "wb", mtime=0) as file:
        for part in dict.fromkeys(("compose", *options.parts)):
            for name, run in getattr(probe, part)():
                # Vendored types have another module name, which pydantic puts into schemas.
                line = json.dumps([name, outcome(run)], sort_keys=True, default=repr)
                file.write(line.replace("vllm___slice__openai__", "openai__").encode() + b"\n")


if __name__ == "__main__":
    main()

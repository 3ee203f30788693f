"""Relays of five model families at three chunk sizes, on engines that ask for two tools and then answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handlers.server import server_app
from handlers.settings import Settings
from tests.engine.generation import Engine
from tests.engine.model import Model as EngineModel
from tests.engine.script import Script
from tests.engine.server import create_app as create_engine_app
from tests.support.serving import serving

CHUNKS = (1, 7, 100)
"""Tokens in an engine's chunk."""
ANSWER = "It rains at 14 degrees, and it is half past nine."


@dataclass(frozen=True)
class Family:
    """A model folder, its settings, and what its model writes: the turns of an agent's loop, one after the other.

    A turn is given by what stands in the prompt when it is due. ``thought`` is in the reasoning before the calls.
    """

    folder: str
    options: dict[str, Any]
    turns: list[tuple[str, str]] = field(default_factory=list)
    thought: str = ""


def _calls(first: str, second: str, thought: str = "") -> list[tuple[str, str]]:
    """Both calls in one turn, then the answer, for which both results have to be there."""
    return [(r"14 degrees[\s\S]*half past nine", f"{thought}{ANSWER}"), ("", f"{thought}{first}{second}")]


def _harmony(name: str, arguments: str) -> str:
    thought = f"<|channel|>analysis<|message|>I call {name}.<|end|>"
    return f"{thought}<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


def _hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def _xml(name: str, key: str, value: str) -> str:
    return f"<tool_call>\n<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"


def _deepseek(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


_PARIS, _ZONE = '{"city": "Paris"}', '{"zone": "Europe/Paris"}'
FAMILIES = {
    "hermes": Family(
        "qwen3",
        {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"},
        _calls(
            _hermes("get_weather", _PARIS),
            "\n" + _hermes("get_time", _ZONE),
            "<think>\nI need the tools.\n</think>\n\n",
        ),
        "I need the tools.",
    ),
    "qwen3_coder": Family(
        "qwen3.5",
        {"tool_call_parser": "qwen3_coder", "reasoning_parser": "qwen3"},
        _calls(
            _xml("get_weather", "city", "Paris"),
            "\n" + _xml("get_time", "zone", "Europe/Paris"),
            "I need the tools.\n</think>\n\n",
        ),
        "I need the tools.",
    ),
    "deepseek": Family(
        "deepseek",
        {"tool_call_parser": "deepseek_v31", "reasoning_parser": "deepseek_v3"},
        _calls(
            "<｜tool▁calls▁begin｜>" + _deepseek("get_weather", _PARIS),
            _deepseek("get_time", _ZONE) + "<｜tool▁calls▁end｜>",
        ),
    ),
    "llama3_json": Family(
        "llama3",
        {"tool_call_parser": "llama3_json"},
        _calls(
            '{"name": "get_weather", "parameters": {"city": "Paris"}}',
            '; {"name": "get_time", "parameters": {"zone": "Europe/Paris"}}',
        ),
    ),
    # One call a turn: <|call|> ends the model's turn.
    "harmony": Family(
        "gpt-oss",
        {"tool_call_parser": "openai", "reasoning_parser": "openai_gptoss"},
        [
            (
                "half past nine",
                f"<|channel|>analysis<|message|>Both.<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}",
            ),
            ("14 degrees", _harmony("get_time", _ZONE)),
            ("", _harmony("get_weather", _PARIS)),
        ],
        "I call get_weather.",
    ),
}


# What an agent that sends much asks: of every family once.
LARGE = 7
Endpoints = list[dict[str, Any]]


class Noted:
    """An application, and in ``asked`` what it was asked: ``(endpoint's name, path)`` of each POST."""

    def __init__(self, app: Any, name: str, asked: list[tuple[str, str]]) -> None:
        self._app = app
        self._name = name
        self._asked = asked

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            self._asked.append((self._name, scope["path"]))
        await self._app(scope, receive, send)


@contextmanager
def endpoints(models_dir: Path, asked: list[tuple[str, str]] | None = None, **settings: Any) -> Iterator[Endpoints]:
    """Running relays, as agents are told of them: a name such as ``hermes-7``, an address, a model, ``large``.

    ``asked`` gets what they are asked. ``settings`` are those of every relay, beside its family's.
    """
    noted = [] if asked is None else asked
    with ExitStack() as stack:
        found = []
        for name, family in FAMILIES.items():
            model = EngineModel(models_dir / family.folder)
            script = Script({"rules": [{"match": "", "prompt": due, "answer": text} for due, text in family.turns]})
            for size in CHUNKS:
                engine = Engine(model, script, [family.folder], per_chunk=size, tokens_only=True)
                options = {"enable_auto_tool_choice": True, **family.options, **settings}
                relay = server_app(
                    Settings(
                        model=str(models_dir / family.folder),
                        served_model_name=(family.folder,),
                        engine_url=(stack.enter_context(serving(create_engine_app(engine))),),
                        **options,
                    )
                )
                url = stack.enter_context(serving(Noted(relay, f"{name}-{size}", noted)))
                told = {"name": f"{name}-{size}", "url": f"{url}/v1", "model": family.folder}
                found.append({**told, "large": size == LARGE})
        yield found

"""The cases: every parser and pair with its outputs, as token ids, and the ways in which each is cut into chunks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from core.model import Model
from core.options import ModelOptions
from core.parsing.chat_parser import load_chat_parser
from core.upstream.model_view import view_model
from tests.checkpoint.formats import RESPONSE_TEMPLATE
from tests.checkpoint.setups import PAIRS as CHECKPOINTED
from tests.checkpoint.setups import is_harmony
from tests.equality.outputs import Pair, outputs, request
from tests.equality.wire import Case
from tests.slice.parity.inputs import OUTPUTS as RECORDED
from tests.support.models import load

# These read their format from the tokenizer's configuration.
TEMPLATED = frozenset({"hf", "beam"})
TEMPLATED_FOLDER = "families-response-template"
SIZES = (1, 3, 7)
RANDOM = 3
# vLLM counts the calls of this model type in their ids.
_MODEL_TYPES = {"kimi_k2": "kimi_k2"}
_PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
_HARMONY_PROMPT = "<|start|>user<|message|>hi<|end|><|start|>assistant"


def pairs() -> list[tuple[Pair, str]]:
    """Every pair with the model folder that it is run with: where outputs of its model are kept, or all families'."""
    found: dict[Pair, str] = {(None, None): "qwen3"}
    for key in RECORDED:
        folder, tool, reasoning = key.split("|")
        found.setdefault((None if tool == "None" else tool, None if reasoning == "None" else reasoning), folder)
    for pair in CHECKPOINTED:
        if is_harmony(pair):
            found.setdefault(pair, "gpt-oss")
        elif TEMPLATED.intersection(pair):
            found.setdefault(pair, TEMPLATED_FOLDER)
        else:
            found.setdefault(pair, "families")
    return sorted(found.items(), key=lambda item: (item[1], str(item[0])))


class Models:
    """A deployment for each pair. Tokenizers are loaded once; ``work`` is a folder for the one that is made here."""

    def __init__(self, models: Path, work: Path) -> None:
        self._models = models
        self._work = work
        self.base = cache(self._base)

    def folder(self, name: str) -> Path:
        """A model folder by name.  ``TEMPLATED_FOLDER`` is that of all families with a response template."""
        if name != TEMPLATED_FOLDER:
            return self._models / name
        made = self._work / name
        if not made.is_dir():
            made.mkdir(parents=True)
            for file in (self._models / "families").iterdir():
                (made / file.name).write_bytes(file.read_bytes())
            config = json.loads((made / "tokenizer_config.json").read_text(encoding="utf-8"))
            config["response_template"] = RESPONSE_TEMPLATE
            (made / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        return made

    def _base(self, name: str) -> Model:
        return load(self.folder(name), served_names=("m",))

    def deployment(self, pair: Pair, folder: str, **chosen: str) -> Model:
        """The model of a pair, as ``load_model`` gives it, with the tokenizer of the folder's other pairs.

        Raises:
            ConfigurationError: the pair cannot be served; the reason is vLLM's.
        """
        base = self.base(folder)
        tool, reasoning = pair
        options = ModelOptions(
            ("m",),
            tool_call_parser=tool,
            reasoning_parser=reasoning,
            enable_auto_tool_choice=tool is not None,
            **chosen,  # type: ignore[arg-type]
        )
        config = base.config
        if tool in _MODEL_TYPES:
            config = replace(config, config={**config.config, "model_type": _MODEL_TYPES[tool]})
        if pair == (None, None):
            return base
        view = view_model(config, "m", base.origin, base.limits.max_model_len)
        parser = load_chat_parser(config.is_harmony, view, base.tokenizer, options)
        return replace(base, options=options, config=config, chat_parser=parser)


def cases(model: Model, pair: Pair, folder: str) -> Iterator[Case]:
    """The cases of one pair, in the order of its outputs."""
    tokenizer = model.tokenizer
    for output in outputs(pair, folder):
        ids = tokenizer.encode(output.text, add_special_tokens=False)
        ids = ids[: round(len(ids) * output.keep)]
        if output.finish == "stop" and not output.complete and not model.config.is_harmony:
            # Engines report the token that ended the output; a harmony message has its own end.
            assert tokenizer.eos_token_id is not None
            ids.append(tokenizer.eos_token_id)
        prompt = (_HARMONY_PROMPT if model.config.is_harmony else _PROMPT) + output.opened
        yield Case(
            parsers=pair,
            folder=folder,
            model_type=model.config.model_type,
            name=output.name,
            request=request(output),
            prompt=tokenizer.encode(prompt, add_special_tokens=False),
            ids=ids,
            finish=output.finish,
            chunkings=chunkings(len(ids), ids[-1] in model.eos.every, f"{pair} {output.name}"),
        )


def chunkings(count: int, stopped: bool, seed: str) -> dict[str, list[int]]:
    """Whole, in pieces of one size, and in pieces of random sizes, which ``seed`` decides: by name the lengths.

    In one of them the finish reason comes in a chunk of its own: with the token that stopped the output when it
    ends with one (``stopped``), as engines report it, otherwise without tokens.
    """
    cut = {"whole": [count]}
    for size in SIZES:
        cut[f"by {size}"] = [min(size, count - start) for start in range(0, count, size)]
    before = count - stopped
    cut["by 5, end apart"] = [*(min(5, before - start) for start in range(0, before, 5)), int(stopped)]
    for number in range(1, RANDOM + 1):
        rng = random.Random(f"{seed} {number}")
        lengths: list[int] = []
        while (left := count - sum(lengths)) > 0:
            lengths.append(min(left, rng.choice((1, 1, 2, 3, 5, 8, 13, 30))))
        cut[f"random {number}"] = lengths
    return cut

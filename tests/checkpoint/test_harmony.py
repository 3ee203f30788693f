"""The harmony machine on outputs that are anything but well formed, and on every form of header."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from core.parsing.checkpoint import CheckpointRefused, pack, unpack
from core.upstream.v0_33.harmony import MAX_HEADER
from tests.checkpoint.carrying import restore, snapshot
from tests.checkpoint.equality import LIMITS, checkpointed, uninterrupted
from tests.checkpoint.setups import HARMONY_IS_STRICT, Deployments
from tests.checkpoint.streams import chunks, mutate

PAIR = ("openai", "openai_gptoss")
MARKS = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
AUTHORS = ("assistant", "assistant", "assistant", "user", "functions.f", "")
HEADERS = (
    "<|channel|>analysis",
    "<|channel|>final",
    "<|channel|>final <|constrain|>json",
    "<|channel|>commentary",
    "<|channel|>commentary to=functions.a_b json",
    "<|channel|>commentary to=functions.get_weather <|constrain|>json",
    "<|channel|>commentary to=functions.x<|constrain|>json",
    " to=functions.y<|channel|>commentary json",
    " to=functions.z<|channel|>analysis <|constrain|>json",
    "<|channel|>commentary to=python code",
    "<|channel|>analysis to=browser.search <|constrain|>json",
    "<|channel|>commentary to=assistant",
    "<|channel|>comment ary to=functions.q <|constrain|> json",
)
_MALFORMED = "<|channel|>comment ary"
WORDS = "analysis final commentary assistant user tool to=functions.f to=browser.search json python 日本😀🌦️ a <|start"


class Outputs:
    """Token sequences in the vocabulary of the format, in and out of order."""

    def __init__(self, encode: Callable[[str], list[int]], rng: random.Random) -> None:
        self.encode = encode
        self.rng = rng
        self.marks = [encode(mark)[0] for mark in MARKS]
        self.words = encode(WORDS)

    def text(self, length: int) -> list[int]:
        return [self.rng.choice(self.words) for _ in range(self.rng.randint(0, length))]

    def noise(self) -> list[int]:
        count = self.rng.randint(3, 60)
        return [self.rng.choice(self.marks if self.rng.random() < 0.4 else self.words) for _ in range(count)]

    def messages(self) -> list[int]:
        rng = self.rng
        ids: list[int] = []
        for number in range(rng.randint(1, 5)):
            if number or rng.random() < 0.1:
                ids += self.encode("<|start|>" + rng.choice(AUTHORS))
            ids += self.encode(rng.choice(HEADERS) + "<|message|>") + self.text(15)
            ids += self.encode(rng.choice(("<|end|>", "<|end|>", "<|call|>", "<|return|>")))
        if rng.random() < 0.5:
            ids = mutate(ids, self.marks, rng) or ids
        return ids[: rng.randrange(1, len(ids) + 1)] if rng.random() < 0.5 else ids


@pytest.mark.parametrize("part", range(6))
def test_malformed_messages(deployments: Deployments, part: int, runs: Callable[[int], int]) -> None:
    setup = deployments.setup(PAIR)
    for seed in range(runs(25)):
        rng = random.Random(f"harmony {part} {seed}")
        outputs = Outputs(lambda text: setup.tokenizer.encode(text, add_special_tokens=False), rng)
        ids = outputs.noise() if rng.random() < 0.3 else outputs.messages()
        stream = list(chunks(setup.tokenizer, [], ids, rng.choice((1, 1, 2, 5, rng)), rng.choice(("stop", "length"))))
        assert checkpointed(setup, stream, [])[0] == uninterrupted(setup, stream, []), f"seed {seed}"


@pytest.mark.parametrize(
    "header", [header for header in HEADERS if not (HARMONY_IS_STRICT and header.startswith(_MALFORMED))]
)
@pytest.mark.parametrize("start", ["", "<|channel|>final<|message|>x<|end|><|start|>assistant"])
def test_every_header_leads_to_the_same_channel(deployments: Deployments, header: str, start: str) -> None:
    setup = deployments.setup(PAIR)
    live = setup.processor()
    ids = setup.tokenizer.encode(f"{start}{header}<|message|>Some text", add_special_tokens=False)
    for chunk in chunks(setup.tokenizer, [], ids, 1, None):
        live.step(chunk.text, list(chunk.ids), None, None)
    again = setup.processor()
    restore(again, unpack(pack(snapshot(live)), LIMITS))
    there, here = live.parser._parser, again.parser._parser
    assert there.state_data["state"] == here.state_data["state"]
    assert there.current_channel == here.current_channel
    # vLLM takes a type of content for no recipient, where the machine does.
    normal = live.parser._normalize_recipient
    assert normal(there.current_recipient) == normal(here.current_recipient)


def test_a_header_without_end_is_carried_for_a_while_and_then_refused(deployments: Deployments) -> None:
    setup = deployments.setup(PAIR)
    live = setup.processor()
    word = setup.tokenizer.encode(" word", add_special_tokens=False)
    live.step(" word" * 100, word * 100, None, None)
    again = setup.processor()
    restore(again, unpack(pack(snapshot(live)), LIMITS))
    assert repr(again.step("", [], "stop", None)) == repr(live.step("", [], "stop", None))
    live = setup.processor()
    live.step(" word" * (MAX_HEADER + 1), word * (MAX_HEADER + 1), None, None)
    with pytest.raises(CheckpointRefused, match="malformed header"):
        snapshot(live)

"""Stop strings in a stream, against the plain rule: look at the whole text after each token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.protocol.engine import LogProbs, PositionLogProbs, StreamChoice
from core.relay.stop_strings import StopStrings
from core.text.detokenizer import EMPTY_WINDOW, DecodeOptions, detokenize
from core.text.stop import EosTokens, StopOptions, cut_stop_string
from core.text.stop_search import StopSearch
from core.text.unfinished import ByteForm
from core.tokenizer import Tokenizer

EOS = EosTokens(primary=151645, every=frozenset({151645}))


class Letters:
    """A tokenizer of one letter a token: id 0 is ``a``. Enough for text that is all about matching."""

    is_fast = True
    special_ids: frozenset[int] = frozenset()
    all_special_tokens: Sequence[str] = ()
    space_marker = None
    joins_exactly = True
    byte_form = ByteForm.JOINED

    def __len__(self) -> int:
        return 26

    def id_to_token(self, token_id: int) -> str | None:
        return chr(97 + token_id)

    def get_added_vocab(self) -> dict[str, int]:
        return {}

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(97 + i) for i in ([ids] if isinstance(ids, int) else ids))


def ids_of(text: str) -> list[int]:
    return [ord(letter) - 97 for letter in text]


def stream(options: StopOptions) -> StopStrings:
    return StopStrings(StopSearch(options.strings), Letters(), EMPTY_WINDOW, DecodeOptions(), options, EOS)  # type: ignore[arg-type]


def choice(ids: Sequence[int], finish_reason: str | None = None) -> StreamChoice:
    return StreamChoice(index=0, token_ids=list(ids), finish_reason=finish_reason)


def run(text: str, sizes: Sequence[int], options: StopOptions) -> tuple[str, str | None, int]:
    """The shown text, what stopped it, and how many tokens count; every chunk on its way is checked."""
    stops = stream(options)
    shown, stopped, tokens, at = "", None, 0, 0
    for place, size in enumerate(sizes):
        last = place == len(sizes) - 1
        part = text[at:] if last else text[at : at + size]
        at += len(part)
        for release in stops.feed(choice(ids_of(part), "length" if last else None)):
            assert stopped is None, "nothing comes after the end"
            piece = Letters().decode(release.choice.token_ids or [])
            shown += piece if release.keep is None else piece[: release.keep]
            tokens += len(release.choice.token_ids or ())
            if isinstance(release.choice.stop_reason, str):
                stopped = release.choice.stop_reason
        if stopped is not None:
            assert stops.found
            break
        # What is shown may not be the beginning of a string that could still be completed.
        if not options.include_in_output and not last:
            held = at - len(shown)
            assert not any(
                shown.endswith(string[:length]) and held == 0
                for string in options.strings
                for length in range(1, len(string))
            )
    return shown, stopped, tokens


def plain_rule(text: str, options: StopOptions) -> tuple[str, str | None, int]:
    """vLLM's rule, one letter at a time."""
    for end in range(1, len(text) + 1):
        if end <= options.min_tokens:
            continue
        cut, found = cut_stop_string(text[:end], 1, options.strings, options.include_in_output)
        if found is not None:
            return cut, found, end
    return text, None, len(text)


few_letters = st.text(alphabet="abc", max_size=40)


@given(
    text=few_letters,
    strings=st.lists(st.text(alphabet="abc", min_size=1, max_size=6), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    include=st.booleans(),
    min_tokens=st.integers(0, 10),
)
@settings(max_examples=600, deadline=None)
def test_any_chunks_give_what_the_plain_rule_gives(
    text: str, strings: list[str], sizes: list[int], include: bool, min_tokens: int
) -> None:
    options = StopOptions(strings=tuple(strings), include_in_output=include, min_tokens=min_tokens)
    assert run(text, sizes, options) == plain_rule(text, options)


def test_only_what_may_be_a_stop_string_is_held_back() -> None:
    stops = stream(StopOptions(strings=("xyz",)))
    shown = [
        Letters().decode(r.choice.token_ids or []) for part in "abxyabxxya" for r in stops.feed(choice(ids_of(part)))
    ]
    assert "".join(shown) == "abxyabxxya"
    stops = stream(StopOptions(strings=("xyz",)))
    assert stops.feed(choice(ids_of("a"))) != []
    assert stops.feed(choice(ids_of("x"))) == []
    assert stops.feed(choice(ids_of("y"))) == []
    assert [r.choice.token_ids for r in stops.feed(choice(ids_of("b")))] == [ids_of("x"), ids_of("y"), ids_of("b")]


def test_chunks_keep_their_borders_and_their_logprobs() -> None:
    """A parser that wants one token a chunk gets them so, held back or not."""
    stops = stream(StopOptions(strings=("yz",)))
    chunk = StreamChoice(
        index=0,
        token_ids=ids_of("xyzq"),
        logprobs=LogProbs(content=[PositionLogProbs(token_id=i, logprob=-0.5) for i in ids_of("xyzq")]),
    )
    (release,) = stops.feed(chunk)
    assert release.keep == 1
    assert release.choice.token_ids == ids_of("xyz"), "what comes after the string was never generated"
    assert release.choice.logprobs is not None
    assert len(release.choice.logprobs.content or ()) == 3
    assert (release.choice.finish_reason, release.choice.stop_reason) == ("stop", "yz")
    assert chunk.token_ids == ids_of("xyzq"), "the engine's chunk stays as it is"


@pytest.mark.parametrize("include", [False, True])
def test_the_end_of_sequence_is_text_only_where_it_is_shown(tokenizer: Tokenizer, include: bool) -> None:
    options = StopOptions(strings=("end|>", "!"), include_in_output=include)
    stops = StopStrings(
        StopSearch(options.strings), tokenizer, EMPTY_WINDOW, DecodeOptions(skip_special=False), options, EOS
    )
    ids = tokenizer.encode("Hi there", add_special_tokens=False)
    (released,) = stops.feed(choice([*ids, 151645], "stop"))
    assert stops.found is include
    assert released.choice.stop_reason == ("end|>" if include else None)
    assert released.keep == (len("Hi there<|im_end|>") if include else None)


def test_a_string_within_one_token_and_one_over_a_split_character(tokenizer: Tokenizer) -> None:
    for string, text, wanted in (("or", "for ever", "f"), ("🚀", "go 🚀 up", "go "), ("é漢", "caf é漢字", "caf ")):
        options = StopOptions(strings=(string,))
        stops = StopStrings(StopSearch((string,)), tokenizer, EMPTY_WINDOW, DecodeOptions(), options, EOS)
        shown, window = "", EMPTY_WINDOW
        for token_id in tokenizer.encode(text, add_special_tokens=False):
            for release in stops.feed(choice([token_id])):
                piece, window = detokenize(tokenizer, release.choice.token_ids or [], window, DecodeOptions())
                shown += piece[: release.keep]
            if stops.found:
                break
        assert (shown, stops.found) == (wanted, True)

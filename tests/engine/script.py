"""The script: which text answers which prompt.

It must never see token ids: it works on decoded prompts and gives texts.
"""

import re
from dataclasses import dataclass
from typing import Any

from tests.engine.faults import Fault, read_fault

DEFAULT_SCRIPT: dict[str, Any] = {
    "rules": [
        {
            "match": r"<\|image_pad\|>|<start_of_image>|\[IMG\]",
            "answer": "I was given a picture. What is in it only a model can say, and I am a script.",
        },
        {
            "match": r"<tool_response>\s*(.+?)\s*</tool_response>",
            "answer": "The tool answered {1}, so take a light jacket.",
        },
        {
            "match": r"weather in ([\w ]+\w)",
            "prompt": "get_weather",
            "answer": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "{1}"}}\n</tool_call>',
        },
        {"match": r"2 ?\+ ?2", "answer": "<think>\nTwo and two.\n</think>\n\n2 + 2 = 4."},
        {
            "match": r"(\d+) ?\+ ?(\d+)|why|think",
            "answer": "<think>\nThe user asks: {last_words}\nI go through it step by step.\n</think>\n\n"
            "I thought about it, and the answer is in the question.",
        },
        {"match": r"\b(hello|hi|hey)\b", "answer": "Hello! How can I help you today?"},
        {"match": "", "answer": ["You said: {last_words}", "I heard: {last_words}"]},
    ]
}

# How the last user message looks in the decoded prompt, family by family.
_USER_TURNS = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"<\|im_start\|>user\n(.*?)<\|im_end\|>",
        r"<\|start_header_id\|>user<\|end_header_id\|>\n\n(.*?)<\|eot_id\|>",
        r"<\|start\|>user<\|message\|>(.*?)<\|end\|>",
        r"<｜User｜>(.*?)(?=<｜|$)",
        r"\[INST\] ?(.*?)\[/INST\]",
    )
]

_BEGINNING = re.compile(r"^(<s>|<\|begin_of_text\|>|<｜begin▁of▁sentence｜>)")


def last_user_message(prompt: str) -> str:
    """The last user message of a decoded prompt; the whole prompt where there are no turns."""
    found = [match for pattern in _USER_TURNS for match in pattern.finditer(prompt)]
    return max(found, key=lambda match: match.start())[1] if found else _BEGINNING.sub("", prompt)


@dataclass(frozen=True)
class Rule:
    """What answers a prompt that matches."""

    match: re.Pattern[str]
    prompt: re.Pattern[str]
    texts: list[str]
    fault: Fault | None


@dataclass(frozen=True)
class Answer:
    """The texts for the choices, and what goes wrong with them."""

    texts: list[str]
    fault: Fault | None = None


class Script:
    """The rules of a script.  Raises ValueError, naming the rule, where it is not one."""

    def __init__(self, source: Any) -> None:
        if not isinstance(source, dict) or not isinstance(source.get("rules"), list):
            raise ValueError('a script is {"rules": [...]}')
        self._rules = [self._rule(i, rule) for i, rule in enumerate(source["rules"])]

    @staticmethod
    def _rule(number: int, rule: Any) -> Rule:
        try:
            answer = rule["answer"]
            texts = [answer] if isinstance(answer, str) else list(answer)
            if not texts or not all(isinstance(text, str) and text for text in texts):
                raise ValueError("answer must be a text or a list of texts, none empty")
            flags = re.IGNORECASE | re.DOTALL
            return Rule(
                re.compile(rule["match"], flags),
                re.compile(rule.get("prompt", ""), flags),
                texts,
                read_fault(rule.get("fault")),
            )
        except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
            raise ValueError(f"rule {number} of the script: {error!r}") from None

    def answers(self, prompt: str) -> list[str]:
        """The texts for the choices, of the first rule that matches."""
        return self.answer(prompt).texts

    def answer(self, prompt: str) -> Answer:
        """What the first rule that matches says."""
        user = last_user_message(prompt)
        for rule in self._rules:
            match = rule.match.search(user)
            if match is None or rule.prompt.search(prompt) is None:
                continue
            values = {str(i): group or "" for i, group in enumerate(match.groups(), 1)}
            values |= {"user": user.strip(), "last_words": " ".join(user.split()[-12:])}
            return Answer([_after_prompt(_filled(text, values), prompt) for text in rule.texts], rule.fault)
        return Answer(["The script has no answer to this."])


def _filled(text: str, values: dict[str, str]) -> str:
    """The text with every known `{name}` replaced; other braces are left alone, JSON has them."""
    return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), text)


def _after_prompt(text: str, prompt: str) -> str:
    """The answer as a model would go on: reasoning that the prompt has opened or closed is not opened again."""
    end = prompt.rstrip()
    if text.startswith("<think>\n") and end.endswith("<think>"):
        return text.removeprefix("<think>\n")
    if text.startswith("<think>") and end.endswith("</think>"):
        return text.partition("</think>")[2].lstrip()
    return text

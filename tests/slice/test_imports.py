"""What importing costs: the packages that stay out, and the time."""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

# All that a chat derender with hermes and qwen3 imports, and a first request.
DERENDER = """
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest, ChatCompletionResponse
from vllm.parser import ParserManager
parser_class = ParserManager.get_parser("hermes", "qwen3", enable_auto_tools=True)
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
import vllm.entrypoints.openai.chat_completion.message_assembly
import vllm.entrypoints.openai.completion.protocol
import vllm.entrypoints.scale_out.token_in_token_out.protocol
import vllm.tokenizers.detokenizer_utils
from vllm.entrypoints.generate.base.serving import chat_top_logprobs_limit
from vllm.entrypoints.serve.utils.tool_calls_utils import resolve_finish_reason
from vllm.v1.engine.detokenizer import check_stop_strings
tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
request = ChatCompletionRequest.model_validate(
    {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [tool], "tool_choice": "auto"}
)
"""
PARSE = """
import json, sys
from pathlib import Path
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
tokenizer = load_tokenizer(FolderFiles(Path(MODEL)))
parser = parser_class(tokenizer, request.tools)
text = '<think>a</think><tool_call>{"name": "f", "arguments": {}}</tool_call>'
result = parser.parse(text, request, enable_auto_tools=True)
assert result[0] == "a" and result[2][0].name == "f", result
parser = parser_class(tokenizer, request.tools)
processor = ChatStreamProcessor(request, parser, enable_auto_tools=True, parser_cls=parser_class)
for token_id in tokenizer.encode(text, add_special_tokens=False):
    processor.step(tokenizer.decode([token_id]), [token_id], None, [1])
assert processor.tools_streamed
"""
LOADED = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))\n"

ABSENT = {
    "torch", "transformers", "triton", "numpy", "PIL", "openai", "httpx", "fastapi", "prometheus_client", "xgrammar",
    "tvm_ffi", "ijson", "lark", "llguidance", "mistral_common", "jinja2", "vllm.entrypoints.openai.responses.protocol",
    "vllm._slice.openai.types.responses.response", "vllm._slice.xgrammar",
}  # fmt: skip


def test_derender_loads_nothing_heavy(fresh: Callable[[str], Any], models_dir: Any) -> None:
    loaded = fresh(DERENDER + f"MODEL = {str(models_dir / 'qwen3')!r}\n" + PARSE + LOADED)
    assert "vllm.parser.qwen3" in loaded
    assert not ABSENT & set(loaded)


def test_render_loads_no_torch_and_no_grammar_library(fresh: Callable[[str], Any]) -> None:
    loaded = fresh("import vllm.renderers.hf\nfrom vllm.renderers.chat_utils import parse_chat_messages\n" + LOADED)
    assert "jinja2" in loaded
    assert not (ABSENT - {"jinja2"}) & set(loaded)


def test_full_openai_package_is_left_alone(fresh: Callable[[str], Any]) -> None:
    code = "import vllm.parser, vllm.parser.abstract_parser, openai, json\n"
    code += "from openai.types.chat import ChatCompletion\n"
    code += "print(json.dumps([openai.OpenAI.__name__, ChatCompletion.__module__]))"
    assert fresh(code) == ["OpenAI", "openai.types.chat.chat_completion"]


def _denied() -> list[str]:
    return list(json.loads(files("vllm._slice").joinpath("contents.json").read_text())["denied"])


def test_there_are_denied_modules() -> None:
    assert {"vllm.model_executor", "vllm.lora", "vllm.engine", "vllm.triton_utils"} <= set(_denied())


@pytest.mark.parametrize("name", _denied())
def test_denied_module_raises_with_its_name(name: str) -> None:
    from importlib import import_module

    from vllm._slice.denied import DeniedModule

    with pytest.raises(DeniedModule) as caught:
        import_module(name)
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == name
    assert name in str(caught.value)


def test_every_module_imports(fresh: Callable[[str], Any]) -> None:
    """Also those that no parser imports: nothing in the wheel is broken."""
    code = """
import importlib, json
from importlib.resources import files
contents = json.loads(files("vllm._slice").joinpath("contents.json").read_text())
failed = {}
for name in contents["modules"]:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""
    # xgrammar's wrappers of compiled objects need its library loaded first, which `Grammar` does.
    failed = fresh("from vllm._slice.xgrammar import Grammar\n" + code)
    # vLLM's own refusal: it does not install that package either.
    assert "cohere_melody" in failed.pop("vllm.parser.cohere_command", "cohere_melody")
    assert failed == {}


def test_every_name_of_lazy_modules_loads(fresh: Callable[[str], Any]) -> None:
    code = """
import importlib, json
from importlib.resources import files
contents = json.loads(files("vllm._slice").joinpath("contents.json").read_text())
failed, count = {}, 0
for name, kind in contents["modules"].items():
    if name == "vllm.parser.cohere_command":
        continue
    module = importlib.import_module(name)
    names = []
    if kind == "lazy":
        names = [*module._IMPORTS, *getattr(module, "_LOADERS", ())]
    elif "defer" in kind:
        names = [*module._deferred._entries, *module._deferred._makers]
    for each in names:
        count += 1
        try:
            getattr(module, each)
        except Exception as error:
            failed[f"{name}.{each}"] = repr(error)
print(json.dumps([count, failed]))
"""
    count, failed = fresh("from vllm._slice.xgrammar import Grammar\n" + code)
    assert failed == {}
    assert count > 200


def test_no_parser_loads_the_responses_types_for_a_chat(fresh: Callable[[str], Any], models_dir: Any) -> None:
    """All pairs of parsers, one-shot and streamed, in one process."""
    code = f"""
import sys
sys.path[:0] = ["tests/slice/parity", "."]
from pathlib import Path
from probe import Probe, outcome
probe = Probe(Path({str(models_dir)!r}), sample=True)
cases = 0
for part in (probe.compose, probe.parse):
    for name, run in part():
        outcome(run)
        cases += 1
assert cases > 2000, cases
"""
    loaded = set(fresh(code + LOADED))
    # Mistral's parser needs ijson, and takes mistral-common's tool types where that is installed.
    assert not (ABSENT - {"ijson", "mistral_common", "numpy"}) & loaded
    assert "numpy" not in loaded or "mistral_common" in loaded


def test_mistral_parser_without_mistral_common(fresh: Callable[[str], Any], models_dir: Any) -> None:
    code = f"MODEL = {str(models_dir / 'families')!r}\n"
    code += """
import json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "mistral_common":
            raise ModuleNotFoundError("No module named 'mistral_common'", name=name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
from vllm.parser import ParserManager
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
tokenizer = load_tokenizer(FolderFiles(Path(MODEL)))
parser_class = ParserManager.get_parser("mistral", None, enable_auto_tools=True, tokenizer=tokenizer)
tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [tool], "tool_choice": "auto"}
request = ChatCompletionRequest.model_validate(body)
result = parser_class(tokenizer).parse('[TOOL_CALLS]f[ARGS]{"a": 1}', request, enable_auto_tools=True)
print(json.dumps(result[2][0].name))
"""
    assert fresh(code) == "f"

"""What the documents list, against what there is: wire fields, settings, parsers, parameters, licences."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from core.protocol import derender, engine, openai
from handlers.commands.command_line import _parser as command_line
from handlers.network import Network
from handlers.server import server_app
from handlers.settings import PREFIX, Settings
from infra.licences import LOCKS, NOTICES, SLICE, locked, read_notices
from infra.licences import document as notices_document
from infra.package.dependencies import runtime_files
from infra.package.functions import Function
from tests.docs.documents import ROOT, document, documents
from tests.golden.corpus import load

API, STREAMING, PARSERS = document("docs/api.md"), document("docs/streaming.md"), document("docs/parsers.md")
# What api.md says of a dialect stands on a page of its own.
DIALECTS = (document("docs/messages.md"), document("docs/responses.md"))


def in_code(*texts: str) -> set[str]:
    """All words that stand in backticks."""
    return {word for text in texts for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w.-]+", span)}


def wire_models() -> list[type]:
    """pydantic's models and dataclasses."""
    found = [
        value
        for module in (derender, engine)
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and (is_dataclass(value) or issubclass(value, BaseModel))
    ]
    assert len(found) > 20
    return found


def test_every_field_of_the_wire_models_is_documented() -> None:
    named = in_code(API.prose)
    state = in_code(STREAMING.prose)
    for model in wire_models():
        for name in model.model_fields if issubclass(model, BaseModel) else [field.name for field in fields(model)]:
            assert name in (state if model is derender.StreamState else named), f"{model.__name__}.{name}"


def test_every_field_of_the_answers_is_documented() -> None:
    source = engine.GenerateResponse(choices=[])
    chunk = engine.GenerateChunk(choices=[])
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    shapes: list[Any] = [
        openai.chat_response(source, "m", [], openai.usage(1, 1)),
        openai.completion_response(source, "m", [], openai.usage(1, 1)),
        openai.chat_chunk(chunk, "m", [], None),
        openai.completion_chunk(chunk, "m", [], None),
        openai.message("a", "b", [call]),
        openai.delta("a", "b", "c", [call]),
        openai.usage(1, 1),
        call,
        call["function"],
    ]
    named = in_code(API.prose)
    for shape in shapes:
        assert shape.keys() <= named, shape.keys() - named


@pytest.fixture(scope="module")
def openapi(models_dir: Path) -> dict[str, Any]:
    settings = Settings(model=str(models_dir / "qwen3"), engine_url=("http://127.0.0.1:9",))
    answer: dict[str, Any] = TestClient(server_app(settings)).get("/openapi.json").json()
    return answer


def test_every_endpoint_and_every_field_of_its_body_is_documented(openapi: dict[str, Any]) -> None:
    """As the OpenAPI document has them. Of vLLM's own types the parts of messages are OpenAI's, and not repeated."""
    schemas = openapi["components"]["schemas"]
    named = in_code(API.prose, *(page.prose for page in DIALECTS))
    for path, methods in openapi["paths"].items():
        assert path in API.prose
        for operation in methods.values():
            body = operation.get("requestBody")
            if body is None:
                continue
            schema = body["content"]["application/json"]["schema"]
            for form in schema.get("oneOf", [schema]):
                properties = schemas[form["$ref"].rpartition("/")[2]]["properties"]
                assert properties.keys() <= named, (path, properties.keys() - named)
    for name in ("StreamOptions", "StructuredOutputsParams", "RepetitionDetectionParams", "ResponseFormat"):
        properties = {field for field in schemas[name]["properties"] if not field.startswith("_")}
        assert properties <= named, (name, properties - named)


def test_every_error_status_is_documented() -> None:
    rows = set(re.findall(r"^\| (\d{3}) \| `([^`]+)` \|", API.prose, re.MULTILINE))
    errors = [import_module(name) for name in ("core.errors", "core.relay.errors")]
    base = errors[0].RequestError
    raised = {
        (str(value.status), value.type)
        for module in errors
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__name__ != "EngineError"
    }
    assert rows == raised | {("500", "InternalServerError")}


def test_the_settings_table_is_complete_and_its_flags_are_real() -> None:
    rows = dict(re.findall(r"^\| `(\w+)`.*? \| (?:`([^`]+)`)? ?\|", API.prose.split("## Settings", 1)[1], re.MULTILINE))
    settings = {PREFIX + entry.name.upper() for entry in fields(Settings) if entry.name != "environ"}
    assert settings == {name for name in rows if name.startswith(PREFIX)}
    for name in settings - {PREFIX + "MODEL"}:
        flag = "--" + name.removeprefix(PREFIX).lower().replace("_", "-")
        is_flag = re.search(rf"{flag}\b", serve_help()) is not None
        assert rows[name] == (flag if is_flag else ""), name
    for name in re.findall(r"\bVLLM_\w+", API.prose):
        sources = [path.read_text() for folder in ("core", "handlers") for path in (ROOT / folder).rglob("*.py")]
        # vLLM's own code reads some in the slice.
        assert any(f'"{name}"' in source for source in sources) or hasattr(import_module("vllm.envs"), name), name


def test_the_table_of_the_server_is_complete() -> None:
    page = document("docs/server.md").prose
    rows = dict(re.findall(r"^\| `(DERENDER_\w+)` \| `([^`]+)` \|", page, re.MULTILINE))
    names = [entry.name for entry in fields(Network)]
    assert rows == {PREFIX + name.upper(): "--" + name.replace("_", "-") for name in names}
    assert all(re.search(rf"{flag}\b", serve_help()) for flag in rows.values())


def serve_help() -> str:
    serve = next(action for action in command_line()._subparsers._group_actions).choices["serve"]  # type: ignore[union-attr,index]
    return str(serve.format_help())


def test_every_variable_that_is_named_is_read_somewhere() -> None:
    folders = ("core", "handlers", "infra", "benchmarks", "tests")
    read = "\n".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    settings = {PREFIX + entry.name.upper() for entry in (*fields(Settings), *fields(Network))}
    for found in documents():
        for name in re.findall(rf"\b{PREFIX}\w*[A-Z]\b", found.text):
            assert name in settings or f'"{name}"' in read, f"{found.path}: {name}"


def test_every_parameter_of_the_template_is_documented() -> None:
    template = (ROOT / "template.yaml").read_text().split("\nParameters:\n", 1)[1]
    section = re.split(r"^\w+:", template, maxsplit=1, flags=re.MULTILINE)[0]
    parameters = re.findall(r"^  (\w+):$", section, re.MULTILINE)
    assert len(parameters) > 30
    settings = {"".join(part.title() for part in entry.name.split("_")) for entry in fields(Settings)}
    named = set(
        re.findall(r"\w+", "".join(document(f"docs/{name}.md").text for name in ("api", "deploy", "operations")))
    )
    for name in parameters:
        assert name in settings or name in named, f"{name} is in none of docs/api.md, deploy.md, operations.md"


def parser_rows() -> list[list[str]]:
    """Family, tool parsers and reasoning parsers of each row of the first table."""
    table = PARSERS.prose.split("| model family |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert all(len(row) == 3 and row[0] and (row[1] or row[2]) for row in rows)
    return rows


def test_every_registered_parser_has_its_model_family() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    rows = parser_rows()
    for registry, column, count in (
        (ToolParserManager.lazy_parsers, 1, 58),
        (ReasoningParserManager.lazy_parsers, 2, 42),
    ):
        assert len(registry) == count
        named = {name for row in rows for name in re.findall(r"`([^`]+)`", row[column])}
        named -= {"response_template", "cohere_melody"}  # not names of parsers
        assert named == registry.keys()
        for row in rows:
            # What is "also called" another is the same parser, and every such pair is named.
            for one, other in re.findall(r"`([^`]+)`, also called `([^`]+)`", row[column]):
                assert registry[one] == registry[other]
        aliases = len(registry) - len(set(registry.values()))
        assert sum("also called" in row[column] for row in rows) == aliases
    assert f"{58} tool parsers, {42} reasoning parsers" in PARSERS.prose


def test_the_number_of_recorded_answers_is_right() -> None:
    assert f"{len(load()):,} recorded answers" in document("README.md").prose


LIMITS = [
    ("core.protocol.derender", "MAX_CHUNKS", "chunks in one call | {:,}"),
    ("core.protocol.derender", "MAX_WINDOW", "{:,} tokens of at most"),
    ("core.protocol.schema_error", "_MAX_ERRORS", "| {}, and beyond"),
    ("core.protocol.schema_error", "MAX_COLLECTED", "beyond {:,} they are only counted"),
    ("core.state.window", "MAX_TOKEN_CHARS", "at most {:,} characters"),
    ("core.bounds", "MAX_ODD_PARTS", "neither text nor an object | {:,}"),
    ("core.state.context", "MAX_CONTEXT_BYTES", "{} MB expanded"),
    ("core.parsing.checkpoint.packing", "_MAX_RATIO", "a factor of {} over"),
    ("core.text.stop_search", "MAX_STRINGS", "stop strings | {:,},"),
    ("core.text.stop_search", "MAX_CHARS", "with {:,} characters in all"),
    ("core.relay.engine_events", "MAX_EVENT_BYTES", "{} MB for one event"),
    ("handlers.engine_client", "_MAX_ANSWER_BYTES", "{} MB for one answer"),
    ("handlers.relay_endpoints", "_MAX_CALLS", "at the engine at once | {}"),
    ("core.render.step_limit", "MAX_STEPS", "at most {:,} steps"),
    ("core.state.signature", "MIN_KEY_BYTES", "at least {} bytes"),
]


@pytest.mark.parametrize(("module", "name", "words"), LIMITS, ids=[name for _, name, _ in LIMITS])
def test_the_limits_that_security_md_names_are_those_of_the_code(module: str, name: str, words: str) -> None:
    value = getattr(import_module(module), name)
    shown = words.format(value // 2**20 if " MB" in words else value)
    assert shown in " ".join(document("docs/security.md").prose.split())


def test_the_layout_names_every_folder() -> None:
    layout = "\n".join(line for _, line in document("docs/architecture.md").indented)
    own = [path for pattern in ("*/*.py", "core/*/*.py", "infra/*/*.py") for path in ROOT.glob(pattern)]
    folders = {path.parent.name for path in own} - {"build", "dist"}
    assert len(folders) > 15
    for folder in folders:
        assert re.search(rf"^{folder}/", layout, re.MULTILINE), folder


def test_the_notices_are_up_to_date() -> None:
    assert (ROOT / NOTICES).read_text(encoding="utf-8") == notices_document(read_notices())


def test_the_notices_cover_exactly_what_is_bundled() -> None:
    text = (ROOT / NOTICES).read_text(encoding="utf-8").split("\n## In the source tree", 1)[0]
    named = dict(re.findall(r"^## (\S+) (\S+)$", text, re.MULTILINE))
    bundled = {}
    for lock in LOCKS:
        for line in (ROOT / "requirements" / lock).read_text().splitlines():
            name, is_pin, version = line.partition("==")
            if is_pin and not line.startswith((" ", "#")) and ";" not in line:
                bundled[name] = version.split()[0]
    assert {name: version for name, version in named.items() if name in bundled} == bundled
    # What has a marker counts where it is true in Lambda.
    assert named.keys() == locked().keys() | {SLICE}


def test_a_marker_of_another_system_or_python_is_not_bundled(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    lines = [
        "a-b==1.0 \\",
        "    --hash=sha256:00",
        'exceptiongroup==2.0 ; python_full_version < "3.11" \\',
        "colorama==3.0 ; sys_platform == 'win32' \\",
        "only-arm==4.0 ; platform_machine == 'aarch64'",
        "C.d==5.0",
    ]
    (tmp_path / "requirements" / "runtime.txt").write_text("\n".join(lines))
    assert locked(tmp_path) == {"a-b": "1.0", "c-d": "5.0", "only-arm": "4.0"}


def test_the_artefacts_keep_the_licence_files() -> None:
    """Of all that a function may bundle, in whatever folder of its metadata they stand."""
    everything = {re.sub(r"[-_.]+", "-", found.name).lower() for found in metadata.distributions()}
    folder = Path(str(metadata.distribution("pydantic").locate_file("")))
    kept = {
        name
        for name, _ in runtime_files(
            folder, Function("all", frozenset(), without=frozenset(everything - locked().keys()))
        )
    }
    without = []
    for name in locked():
        files = [path for path in metadata.distribution(name).files or () if ".dist-info" in path.parts[0]]
        licences = {path.as_posix() for path in files if re.match("LICEN[CS]E|NOTICE|COPYING", path.name.upper())}
        assert licences <= kept, name
        if not licences:
            without.append(name)
    # Its authors ship none; the notices say so.
    assert without == ["tokenizers"]

"""What the documents name exists: links, files, commands and their options."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from urllib.parse import unquote

import pytest

from benchmarks.__main__ import NAMES as MEASUREMENTS
from handlers.commands.command_line import _parser as derender_parser
from tests.docs.documents import ROOT, Command, Document, document, documents

# One worker: what a command prints is asked for once.
pytestmark = pytest.mark.xdist_group("docs-commands")
every_document = pytest.mark.parametrize("found", documents(), ids=lambda found: found.path)
every_command = pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=f"{found.path}-{number}")
        for found in documents()
        for number, command in enumerate(found.commands, 1)
    ],
)
FOLDERS = ("core", "handlers", "infra", "client", "tests", "examples", "docs", "benchmarks", "events", "requirements")
PATH = re.compile(rf"(?:\.\./)?((?:{'|'.join(FOLDERS)})/[\w./*-]*[\w*/])(?:::([\w\[\]-]+))?")
# Programs of others, whose options are theirs.
FOREIGN = {"git", "python3", "curl", "aws", "openssl", "docker", "cd", "gh", "pip"}
# Of vLLM's own servers, or of other programs; not options of a command of this project.
FOREIGN_OPTIONS = {
    "--load-format",
    "--template",
    "--target",
    "--mm-processor-kwargs",
    "--mm-device-do-normalize",
    "--media-io-kwargs",
    "--trust-request-mm-kwargs",
    "--enable-scale-out",
    "--tokens-only",
    "--allowed-local-media-path",
}
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
# What stands behind ARGS of a target.
ARGS_OF = {
    "test-docker": ["-m", "tests.docker"],
    "demo": ["-m", "examples.demo"],
    "demo-vllm": ["-m", "examples.vllm_engine.demo"],
    "parity": ["-m", "tests.parity"],
    "fuzz": ["-m", "tests.fuzz"],
    "package": ["-m", "infra.package"],
}


@every_document
def test_links_lead_somewhere(found: Document) -> None:
    for link in found.links:
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = ((ROOT / found.path).parent / path).resolve() if path else ROOT / found.path
        assert target.exists(), f"{found.path}: {link}"
        if anchor:
            assert anchor in document(target.relative_to(ROOT).as_posix()).anchors, f"{found.path}: {link}"


def test_every_document_is_linked_from_the_readme() -> None:
    linked = {link.partition("#")[0] for link in document("README.md").links}
    # Pages of results are linked from the page of their conclusions.
    behind = {f"docs/{link.partition('#')[0]}" for path in linked for link in conclusions(path)}
    for found in documents():
        results = found.path.startswith("docs/results/")
        assert found.path == "README.md" or found.path in (behind if results else linked), f"{found.path}: not linked"


def conclusions(path: str) -> list[str]:
    """The links of a page of ``docs/``; nothing for another path."""
    return document(path).links if path in {found.path for found in documents()} and path.startswith("docs/") else []


# There only after a command made them.
MADE = ("benchmarks/results/",)


@every_document
def test_files_that_are_named_exist(found: Document) -> None:
    for span in found.spans:
        for path, test in PATH.findall(span):
            if not re.search(rf"(^|[\s\"'=(]){re.escape(path)}", span):
                continue  # part of an address or of another name
            if path.startswith(MADE):
                continue
            matches = [match for match in ROOT.glob(path.rstrip("/")) if match.exists()]
            assert matches, f"{found.path}: `{span}`"
            if test:
                assert re.search(rf"def {re.escape(test.partition('[')[0])}\b", matches[0].read_text()), (
                    f"{found.path}: `{span}`"
                )


def commands_in_prose(found: Document) -> list[Command]:
    """Commands that stand in a sentence: `make X`, `derender X`, `python -m X`."""
    starts = re.compile(r"^(make|derender|python -m|\.venv[\w-]*/bin/\S+) ")
    return [Command(found.path, 0, span) for span in found.spans if starts.match(span)]


@every_document
def test_commands_in_sentences(found: Document) -> None:
    for command in commands_in_prose(found):
        check(command)


@every_command
def test_command_lines(command: Command) -> None:
    check(command)


def check(command: Command) -> None:
    """That a command could be run: its program, its target or module, each of its options, and the files it names."""
    text = re.sub(r"\s#.*$", "", command.text).replace(" && ", " ; ")
    for part in text.split(" ; "):
        words = shlex.split(part.replace("...", "").replace("[", "").replace("]", "").replace("<", "").replace(">", ""))
        while words and re.match(r"^[A-Z][A-Z_]*=", words[0]):
            words.pop(0)  # a variable for the command, or of the shell
        if words:
            check_words(words, command.place)


def check_words(words: list[str], place: str) -> None:
    program, arguments = words[0], words[1:]
    name = program.rpartition("/")[2]
    if name == "make":
        check_make(arguments, place)
    elif name == "derender":
        check_derender(arguments, place)
    elif name == "python":
        check_python(arguments, place)
    elif name == "sam":
        check_sam(arguments, place)
    elif program.startswith(".venv/bin/"):
        assert (ROOT / program).exists(), f"{place}: {program}"
        # The options of a program of commands are those of its command.
        check_options([program, arguments[0]] if name == "canitoolcall" else [program], arguments, place)
    elif name == "docker":
        check_docker(arguments, place)
    else:
        assert name in FOREIGN, f"{place}: {program} is not known here"


def check_make(arguments: list[str], place: str) -> None:
    targets = [word for word in arguments if "=" not in word]
    assert targets, place
    assert set(targets) <= TARGETS, f"{place}: make {targets}"
    for word in arguments:
        variable, given, value = word.partition("=")
        if not given:
            continue
        assert re.search(rf"\b{variable}\b", MAKEFILE), f"{place}: {variable}"
        if variable == "ARGS":
            check_options(ARGS_OF[targets[0]], shlex.split(value), place)
        elif variable == "WITH":
            names = [pair.partition("=")[0] for pair in value.split()]
            template = (ROOT / "template.yaml").read_text()
            for parameter in names:
                assert re.search(rf"^  {parameter}:$", template, re.MULTILINE), f"{place}: {parameter}"
        elif variable == "STAGE":
            assert f"[{value}." in (ROOT / "samconfig.toml").read_text(), f"{place}: {value}"


def check_derender(arguments: list[str], place: str) -> None:
    if len(arguments) < 2:
        assert not arguments or arguments[0] in ("--version", "serve", "explain", "bundle", "invoke"), place
        return
    if len([word for word in arguments if not word.startswith("-")]) < 2:
        arguments = [arguments[0], "MODEL_DIR", *arguments[1:]]  # a sentence leaves out what does not matter to it
    try:
        derender_parser().parse_args(arguments)
    except SystemExit:
        pytest.fail(f"{place}: derender {' '.join(arguments)}")
    if arguments[0] == "invoke":
        assert (ROOT / arguments[2]).is_file(), f"{place}: {arguments[2]}"


def check_python(arguments: list[str], place: str) -> None:
    if arguments[0] == "-c":
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{place}: {done.stderr}"
        assert done.stdout, place
    elif arguments[0] == "-m":
        if arguments[1] == "benchmarks":
            # NAME stands for any.
            for name in arguments[2:]:
                assert name.startswith("-") or name in (*MEASUREMENTS, "charts", "NAME"), place
            check_options(arguments[:2], [word for word in arguments if word.startswith("--")], place)
        else:
            own = 3 if is_subcommand(arguments) else 2
            check_options(arguments[:own], arguments[own:], place)
    else:
        check_options(arguments[:1], arguments[1:], place)


def check_sam(arguments: list[str], place: str) -> None:
    """sam is in an environment of its own; what is ours of its command line are names and files."""
    template = (ROOT / "template.yaml").read_text()
    for word in arguments:
        if word.endswith("Function"):
            assert re.search(rf"^  {word}:$", template, re.MULTILINE), f"{place}: {word}"
        elif word.startswith("events/"):
            assert (ROOT / word).is_file(), f"{place}: {word}"


def check_docker(arguments: list[str], place: str) -> None:
    stages = (ROOT / "Dockerfile").read_text()
    for option, value in pairwise(arguments):
        if option == "--target":
            assert re.search(rf" AS {value}$", stages, re.MULTILINE | re.IGNORECASE), f"{place}: {value}"
        elif option == "--build-arg":
            assert f"ARG {value.partition('=')[0]}" in stages, f"{place}: {value}"


@cache
def help_of(*command: str) -> str:
    """What a command prints of its options."""
    program = [] if command[0].startswith(".venv") else [sys.executable]
    environ = dict(os.environ)
    if "pytest" in command:
        # With all plugins that are installed this takes seconds; the documents use those of xdist only.
        environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command = (*command, "-p", "xdist.plugin")
    done = subprocess.run(
        [*program, *command, "--help"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def is_subcommand(arguments: list[str]) -> bool:
    """Whether the word after the module has a help of its own; argparse lists these in braces."""
    if len(arguments) < 3 or not arguments[2].isalpha():
        return False
    listed = re.search(r"\{([\w,]+)\}", help_of(*arguments[:2]))
    return listed is not None and arguments[2] in listed[1].split(",")


def check_options(command: list[str], arguments: list[str], place: str) -> None:
    if command[0] == "-m":
        assert find_spec(command[1]) is not None, f"{place}: {command[1]}"
    # Only with options: a module without any may not know --help either.
    names = help_of(*command) if any(word.startswith("-") for word in arguments) else ""
    for word in arguments:
        option = word.partition("=")[0]
        if re.match(r"--?[a-z]", option):
            assert re.search(rf"(^|[\s\[,|]){re.escape(option)}\b(?!-)", names), f"{place}: {option}"
        elif re.match(rf"({'|'.join(FOLDERS)})/", word):
            assert (ROOT / word.partition("::")[0]).exists(), f"{place}: {word}"


@every_document
def test_options_in_sentences_are_options_of_some_command(found: Document) -> None:
    known = "".join(
        help_of(*command)
        for command in (
            *(["-m", "handlers.commands", name] for name in ("serve", "explain")),
            *ARGS_OF.values(),
            ["examples/scripted_engine.py"],
        )
    )
    if found.path == "docs/flags.md":  # the page of vLLM's own
        known += (ROOT / "tests/handlers/data/surface-0.33.0.json").read_text()
    for span in found.spans:
        option = re.match(r"^(--[a-z][a-z0-9-]+)", span)
        if option and option[1] not in FOREIGN_OPTIONS:
            assert re.search(rf"{option[1]}\b(?!-)", known), f"{found.path}: `{span}`"

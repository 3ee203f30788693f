"""The template of `sam local`: the artefacts of this machine's architecture, with the settings that the events go with.

`sam local` cannot use the stack's own template: it expands the loops wrongly,
finds no function behind the routes, and needs AWS credentials to fetch the
relay's adapter, a layer of AWS's. This template has the same functions and
routes. A stand-in takes the adapter's place; it collects an answer and gives it
back whole.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from infra.package.build import ROOT
from infra.package.functions import FUNCTIONS, Function
from infra.package.target import PYTHON, Target

NAME = "local.yaml"
SETTINGS = ROOT / "infra" / "package" / "local_settings.json"
_ADAPTER = "local-adapter"
_STAND_IN = ROOT / "infra" / "emulator" / "adapter" / "web_adapter.py"
_RELAY_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
_RELAY_ROUTES = tuple(("POST", path) for path in _RELAY_PATHS)


class _Template(yaml.SafeLoader):
    """Reads CloudFormation's short forms (``!Ref``) as null: only names and lists matter here."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: None)


def routes(template: str) -> dict[str, list[tuple[str, str]]]:
    """Method and path of each route of ``template.yaml``, by the function that answers it."""
    loaded = yaml.load(template, _Template)
    keys = {name: entry["Key"].split(" ") for name, entry in loaded["Mappings"]["Routes"].items()}
    found: dict[str, list[tuple[str, str]]] = {}
    for name, loop in loaded["Resources"].items():
        if name.startswith("Fn::ForEach::") and name.endswith("Routes"):
            function = name.removeprefix("Fn::ForEach::").removesuffix("Routes").lower()
            found[function] = [(keys[route][0], keys[route][1]) for route in loop[1]]
    return found


def logical_id(function: Function) -> str:
    """The name of a function in the templates."""
    return f"{''.join(part.capitalize() for part in function.name.split('-'))}Function"


def local_template(template: str, target: Target) -> str:
    """The template to lie beside the artefacts of ``target``; paths are from there."""
    by_function = {**routes(template), "relay": list(_RELAY_ROUTES)}
    settings = json.loads(SETTINGS.read_text(encoding="utf-8"))
    resources: dict[str, Any] = {
        logical_id(function): _function(function, target, settings, by_function.get(function.name, []))
        for function in FUNCTIONS
    }
    resources["WebAdapter"] = {
        "Type": "AWS::Serverless::LayerVersion",
        "Properties": {"ContentUri": _ADAPTER, "CompatibleRuntimes": [f"python{PYTHON}"]},
    }
    head = {"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31"}
    text: str = yaml.safe_dump({**head, "Resources": resources}, sort_keys=False)
    return "# Written by `make package`, for `sam local`.\n" + text


def write_local(out: Path, target: Target) -> None:
    """Put the template and the adapter's stand-in beside the artefacts."""
    layer = out / _ADAPTER / "python"
    layer.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_STAND_IN, layer / "web_adapter.py")
    text = local_template((ROOT / "template.yaml").read_text(encoding="utf-8"), target)
    (out / NAME).write_text(text, encoding="utf-8")


def _function(
    function: Function, target: Target, settings: dict[str, dict[str, str]], paths: list[tuple[str, str]]
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "CodeUri": f"{function.name}-{target.name}.zip",
        "Handler": function.handler,
        "Runtime": f"python{PYTHON}",
        "Architectures": [target.name],
        "MemorySize": 1769,
        # A busy machine starts a function more slowly than Lambda.
        "Timeout": 300,
        "Environment": {"Variables": {**settings["all"], **settings.get(function.name, {})}},
        "Events": {
            f"{method.capitalize()}{''.join(part.capitalize() for part in path.split('/'))}": {
                "Type": "HttpApi",
                "Properties": {"Method": method, "Path": path},
            }
            for method, path in paths
        },
    }
    if function.start:
        # The emulator listens on 8080.
        properties["Handler"] = "web_adapter.handler"
        properties["Layers"] = [{"Ref": "WebAdapter"}]
        properties["Environment"]["Variables"] |= {
            "AWS_LWA_PORT": "8081",
            "WEB_ADAPTER_START": function.start,
            "WEB_ADAPTER_INIT_SECONDS": "120",
        }
    return {"Type": "AWS::Serverless::Function", "Properties": properties}

"""What CloudFormation makes of ``template.yaml``: its loops expanded by cfn-lint's transform, its functions by SAM's.

A script of the SAM CLI's environment, where both transforms are. The recording
that ``test_expansion.py`` compares with is written by

    .venv-sam/bin/python -W ignore tests/lambda/expansion.py template.yaml > tests/lambda/expansion.json

A second argument holds parameters' values as JSON, or a list of such: then the
answer is a list of expansions. Parameters that are not given have their defaults.
With ``--loops`` in its place only the loops are expanded.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import Any

from cfnlint.decode import decode
from cfnlint.template import Template
from cfnlint.template.transforms._language_extensions import language_extension
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

PLACE = {"AWS::Region": "us-east-1", "AWS::StackName": "s"}


def loops_expanded(path: str) -> dict[str, Any]:
    """The template of ``path`` in its long form, without ``Fn::ForEach`` and without what only loops need.

    Raises:
        ValueError: the file is no template, or a loop is wrong.
    """
    template, faults = decode(path)
    if faults:
        raise ValueError(faults)
    faults, expanded = language_extension(Template(path, template, [PLACE["AWS::Region"]]))
    if faults:
        raise ValueError(faults)
    # Of the parser's own kinds of text and mapping nothing is left.
    plain: dict[str, Any] = json.loads(json.dumps(expanded, default=str))
    return {name: constants_folded(section) for name, section in plain.items() if name != "Mappings"}


def constants_folded(value: Any) -> Any:
    """``Fn::Sub`` with variables that are plain text or references, as the text that it stands for; anything else as it is."""
    if isinstance(value, list):
        return [constants_folded(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: constants_folded(item) for key, item in value.items()}
    substitution = value.get("Fn::Sub")
    if not isinstance(substitution, list):
        return value
    text = substitution[0]
    for name, variable in substitution[1].items():
        if isinstance(variable, dict) and set(variable) == {"Ref"}:
            variable = "${" + variable["Ref"] + "}"
        if not isinstance(variable, str):
            return value
        text = text.replace("${" + name + "}", variable)
    return {"Fn::Sub": text} if "${" in text else text


def functions_expanded(template: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The expanded template after SAM's transform, with artefacts as if they were in a bucket."""
    template = json.loads(json.dumps(template).replace('"dist/', '"s3://bucket/dist/'))
    values = {name: entry.get("Default", "") for name, entry in template["Parameters"].items()}
    expanded: dict[str, Any] = Translator({}, Parser()).translate(copy.deepcopy(template), {**values, **PLACE, **given})
    return {name: expanded[name] for name in ("Conditions", "Outputs", "Resources")}


if __name__ == "__main__":
    if sys.argv[2:] == ["--loops"]:
        print(json.dumps(loops_expanded(sys.argv[1])))
        raise SystemExit
    os.environ.setdefault("AWS_DEFAULT_REGION", PLACE["AWS::Region"])
    without_loops = loops_expanded(sys.argv[1])
    wanted = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    found: Any
    if isinstance(wanted, list):
        found = [functions_expanded(without_loops, given) for given in wanted]
    else:
        found = functions_expanded(without_loops, wanted)
    print(json.dumps(found, indent=1, sort_keys=True))

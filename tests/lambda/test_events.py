"""Every recorded event through the built function that the template routes it to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.derender_endpoints import DERENDER
from handlers.render_endpoints import RENDER
from infra.package.build import ROOT
from infra.package.functions import find_function
from infra.package.reach import reachable
from tests.images.recorded import build_model, data_url
from tests.support.event_answers import EXPECTED, WITH_IMAGES, with_json
from tests.support.gateway import recorded_event

Invoke = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_event(invoke: Invoke, name: str) -> None:
    function, check = EXPECTED[name]
    answer = invoke(function, recorded_event(name))
    assert answer["statusCode"] == 200, answer["body"]
    check(answer)


def test_every_event_is_tried() -> None:
    assert {path.stem for path in (ROOT / "events").glob("*.json")} == set(EXPECTED) | set(WITH_IMAGES)


def test_the_event_with_a_picture(start: Callable[..., Any], models_dir: Path, tmp_path: Path) -> None:
    folder = build_model("qwen2.5-vl", models_dir / "qwen3", tmp_path)
    (name,) = WITH_IMAGES
    function, check = WITH_IMAGES[name]
    settings = {"DERENDER_MODEL": str(folder), "DERENDER_SERVED_MODEL_NAME": "qwen2.5-vl"}
    emulator = start(function, **settings)
    event = recorded_event(name)
    answer = with_json(emulator.invoke(event))
    assert answer["statusCode"] == 200, answer["body"]
    check(answer)
    # A megapixel has more features than a function may return: the refusal names what may be asked for instead.
    body = json.loads(event["body"])
    body["messages"][0]["content"][1]["image_url"]["url"] = data_url("jpg_1024x1024")
    refused = with_json(emulator.invoke({**event, "body": json.dumps(body)}))
    assert refused["statusCode"] == 413
    assert all(way in refused["json"]["error"]["message"] for way in ('"none"', '"content_parts"'))
    for payload in ("none", "content_parts"):
        other = emulator.invoke({**event, "body": json.dumps({**body, "mm_payload": payload})})
        assert other["statusCode"] == 200


def test_the_events_are_routed_to_the_functions_that_answer_them(template: dict[str, Any]) -> None:
    routes = template_routes(template)
    for name, (function, _) in EXPECTED.items():
        event = recorded_event(name)
        if function == "relay":  # it has an address of its own, which takes any path
            assert event["requestContext"]["domainName"].endswith(".on.aws"), name
            continue
        key = event.get("routeKey") or f"{event['httpMethod']} {event['path']}"
        assert routes[key] == function, name
    tried = {recorded_event(name).get("routeKey") for name in EXPECTED}
    assert "$default" not in routes
    assert set(routes) - tried == set(), "every route has an event"


def template_routes(template: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::ApiGatewayV2::Route":
            properties = resource["Properties"]
            target = properties["Target"]
            # With images another function has the route (test_template.py).
            target = target["Fn::If"][2] if "Fn::If" in target else target
            integration = target["Fn::Sub"].removeprefix("integrations/${").removesuffix("}")
            target = template["Resources"][integration]["Properties"]["IntegrationUri"]["Ref"]
            found[properties["RouteKey"]] = target.removesuffix("Function.Alias").lower()
    return found


def test_the_template_routes_all_that_the_functions_serve(template: dict[str, Any]) -> None:
    routes = template_routes(template)
    for function, router in (("render", RENDER), ("derender", DERENDER)):
        assert find_function(function) is not None
        assert f"handlers.{function}_endpoints" in reachable(f"handlers.{function}", ROOT)
        assert {key: routes.get(key) for path in router.paths if (key := f"POST {path}")} == {
            f"POST {path}": function for path in router.paths
        }
    source = (ROOT / "handlers" / "app.py").read_text()
    for key in routes:
        path = key.split()[1]
        assert path in RENDER.paths | DERENDER.paths or f'"{path}"' in source

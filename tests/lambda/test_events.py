"""Every recorded event through the built function that the template routes it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from handlers.derender_endpoints import DERENDER
from handlers.render_endpoints import RENDER
from infra.package.build import ROOT
from infra.package.functions import find_function
from infra.package.reach import reachable
from tests.support.event_answers import EXPECTED
from tests.support.gateway import recorded_event

Invoke = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_event(invoke: Invoke, name: str) -> None:
    function, check = EXPECTED[name]
    answer = invoke(function, recorded_event(name))
    assert answer["statusCode"] == 200, answer["body"]
    check(answer)


def test_every_event_is_tried() -> None:
    assert {path.stem for path in (ROOT / "events").glob("*.json")} == set(EXPECTED)


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

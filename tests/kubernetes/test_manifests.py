"""The manifests of examples/kubernetes: valid by the published schemas, and in agreement with each other and the image."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from handlers.settings import PREFIX, settings_from_environ

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
# The oldest release with everything that the manifests use, and the newest that the package describes.
RELEASES = ("1.33", "1.37")
MONITOR = json.loads(Path(__file__).with_name("servicemonitor.schema.json").read_text())
MANIFESTS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
CORE = sorted(set(MANIFESTS) - {"kustomization", "servicemonitor"})


def strict(schema: Any) -> Any:
    """The schema with what it does not name forbidden, as the API server forbids it with strict validation."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def validate(manifest: Any, release: str = RELEASES[-1]) -> None:
    if manifest["kind"] == "ServiceMonitor":
        jsonschema.validate(manifest, strict(MONITOR))
    else:
        kubernetes_validate.validate(manifest, release, strict=True)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CORE)
def test_a_manifest_is_valid(name: str, release: str) -> None:
    validate(MANIFESTS[name], release)


def test_the_service_monitor_is_valid() -> None:
    validate(MANIFESTS["servicemonitor"])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("deployment", lambda one: one["spec"]["template"]["spec"]["containers"][0].update(livenessprobe={})),
        ("autoscaler", lambda one: one["spec"].pop("maxReplicas")),
        ("servicemonitor", lambda one: one["spec"]["endpoints"][0].update(intervall="15s")),
    ],
)
def test_a_mistake_is_seen(name: str, change: Any) -> None:
    wrong = json.loads(json.dumps(MANIFESTS[name]))
    change(wrong)
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        validate(wrong)


def test_the_kustomization_lists_every_manifest() -> None:
    listed = MANIFESTS["kustomization"]["resources"]
    assert sorted(listed) == sorted(f"{name}.yaml" for name in MANIFESTS if name != "kustomization")


def test_the_manifests_name_each_other() -> None:
    deployment, service = MANIFESTS["deployment"], MANIFESTS["service"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        MANIFESTS["disruption"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels
    assert (
        MANIFESTS["servicemonitor"]["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    assert MANIFESTS["servicemonitor"]["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    sources = [next(iter(source.values()))["name"] for source in container["envFrom"]]
    assert sources == [MANIFESTS["configuration"]["metadata"]["name"], MANIFESTS["keys"]["metadata"]["name"]]
    assert pod["spec"]["serviceAccountName"] == MANIFESTS["serviceaccount"]["metadata"]["name"]
    assert MANIFESTS["autoscaler"]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    for manifest in MANIFESTS.values():
        if manifest["kind"] not in ("Namespace", "Kustomization"):
            assert manifest["metadata"]["namespace"] == MANIFESTS["namespace"]["metadata"]["name"]
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user
    context = pod["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))


def test_the_settings_start_a_server() -> None:
    environ = {**MANIFESTS["configuration"]["data"], **MANIFESTS["keys"]["stringData"]}
    (container,) = MANIFESTS["deployment"]["spec"]["template"]["spec"]["containers"]
    settings = settings_from_environ(
        {f"{PREFIX}MODEL": container["args"][0], **{k: v for k, v in environ.items() if v}}
    )
    assert settings.engine_url
    assert settings.state_key
    assert settings.api_key

"""The deployment's description: valid, closed by default, least privilege, and each setting where it belongs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from core.errors import ConfigurationError
from handlers.settings import Settings
from infra.deploy import deploy_command
from infra.package.build import ROOT
from infra.package.functions import FUNCTIONS
from infra.package.local import local_template
from infra.package.target import TARGETS, Target, find_target
from infra.package.template import other_template

SAM = ROOT / ".venv-sam" / "bin"
ENVIRON = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1", "SAM_CLI_TELEMETRY": "0"}
# What the entry decides for Lambda.
NOT_OF_THE_TEMPLATE = {
    "environ",
    "max_response_bytes",
    # What the bundle has settled, and what the template has no room for: set the variable in a copy.
    "tokenizer",
    "tool_strict_level",
    "reasoning_effort_map",
    "override_generation_config",
    "parser_family",
    "prompts",
    "chunk_form",
    "root_path",
    "encode_cache_bytes",
    "fast_encoder",
    "continue_turns",
    "turn_cache",
    # The template's functions sign their states.
    "replay_budget",
    # Of a server alone.
    "drain_timeout",
    "work_processes",
    "work_deadline",
    "work_queue",
    "header_timeout",
    "body_timeout",
    "max_connections",
    "max_bytes_in_flight",
    "playground",
    "docs",
    "otlp_traces_endpoint",
    "ready_with_engine",
    "log_format",
}
LAYER = "arn:${AWS::Partition}:lambda:${AWS::Region}:753240598075:layer:LambdaAdapterLayer"

EXPANSION = Path(__file__).with_name("expansion.py")


def expanded(given: object) -> Any:
    """What CloudFormation makes of the template with these parameters' values; a list for a list of such."""
    command = [SAM / "python", "-W", "ignore", EXPANSION, ROOT / "template.yaml", json.dumps(given)]
    return json.loads(subprocess.run(command, env=ENVIRON, capture_output=True, text=True, check=True).stdout)


def of_type(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind and "Properties" in resource
    }


@pytest.mark.parametrize("name", ["template.yaml", "x86_64"])
def test_sam_validate_and_cfn_lint(name: str, tmp_path: Path) -> None:
    path = ROOT / name
    if name == "x86_64":
        target = find_target(name)
        assert target is not None
        text = other_template((ROOT / "template.yaml").read_text(), target)
        assert text is not None
        path = tmp_path / "template.yaml"
        path.write_text(text)
    lint = subprocess.run([SAM / "cfn-lint", str(path)], env=ENVIRON, capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout
    if name == "template.yaml":
        command = [SAM / "sam", "validate", "--lint", "--template", str(path)]
        done = subprocess.run(command, env=ENVIRON, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_other_architecture_differs_in_nothing_else() -> None:
    target = find_target("x86_64")
    assert target is not None
    ours = (ROOT / "template.yaml").read_text().splitlines()
    other = (other_template("\n".join(ours), target) or "").splitlines()
    changed = [(a.strip(), b.strip()) for a, b in zip(ours, other, strict=True) if a != b]
    assert changed == [
        ("Architectures: [arm64]", "Architectures: [x86_64]"),
        ("CodeUri: dist/render-arm64.zip", "CodeUri: render-x86_64.zip"),
        ("CodeUri: dist/render-images-arm64.zip", "CodeUri: render-images-x86_64.zip"),
        ("CodeUri: dist/derender-arm64.zip", "CodeUri: derender-x86_64.zip"),
        ("CodeUri: dist/relay-arm64.zip", "CodeUri: relay-x86_64.zip"),
        (f'- !Sub "{LAYER}Arm64:26"', f'- !Sub "{LAYER}X86:26"'),
    ]
    arm = find_target("arm64")
    assert arm is not None
    assert other_template("x", arm) is None


def test_every_function_is_there(template: dict[str, Any]) -> None:
    functions = of_type(template, "AWS::Serverless::Function")
    assert {f["Handler"] for f in functions.values()} == {function.handler for function in FUNCTIONS}
    assert {f["CodeUri"] for f in functions.values()} == {f"dist/{function.name}-arm64.zip" for function in FUNCTIONS}
    globals_ = template["Globals"]["Function"]
    assert (globals_["Runtime"], globals_["Architectures"]) == ("python3.13", ["arm64"])
    assert globals_["AutoPublishAlias"] == "live"
    assert template["Parameters"]["SnapStart"]["Default"] == "PublishedVersions"


def test_every_setting_is_a_parameter(template: dict[str, Any]) -> None:
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    names = {field.name for field in dataclasses.fields(Settings)} - NOT_OF_THE_TEMPLATE
    relays = of_type(template, "AWS::Serverless::Function")["RelayFunction"]["Environment"]["Variables"]
    assert not set(relays) & set(variables)
    assert {f"DERENDER_{name.upper()}" for name in names} == {
        name for name in (*variables, *relays) if name.startswith("DERENDER_")
    }
    assert {"VLLM_MAX_N_SEQUENCES", "VLLM_SYSTEM_START_DATE"} < set(variables)
    used = json.dumps(template["Resources"]) + json.dumps(template["Globals"]) + json.dumps(template["Conditions"])
    for name in template["Parameters"]:
        assert f'"{name}"' in used or f"${{{name}}}" in used, f"parameter {name} is used nowhere"


def test_the_template_starts_the_functions_with_its_defaults(template: dict[str, Any]) -> None:
    """What the parameters' defaults come to, read as a function reads it."""
    from handlers.settings import settings_from_environ

    environ = {}
    for name, value in template["Globals"]["Function"]["Environment"]["Variables"].items():
        parameter = value.get("Ref")
        environ[name] = str(template["Parameters"][parameter]["Default"]) if parameter else "x"
    settings = settings_from_environ({name: value for name, value in environ.items() if value})
    assert (settings.state_key, settings.state_signature, settings.max_logprobs) == (("x",), "required", 20)
    assert settings.engine_url == (), "without an engine there is no relay"
    assert not settings.trust_request_chat_template


def test_nobody_may_call_unless_said_so(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Authorization"]["Default"] == "AWS_IAM"
    routes = of_type(template, "AWS::ApiGatewayV2::Route")
    assert len(routes) >= 11
    for name, route in routes.items():
        assert route["AuthorizationType"] == {"Ref": "Authorization"}, name
        assert route["AuthorizerId"]["Fn::If"][0] == "AuthorizedByJwt", name
    for name, permission in of_type(template, "AWS::Lambda::Permission").items():
        assert permission["FunctionName"]["Ref"].endswith(".Alias")
        if not name.startswith("Relay"):
            assert "${Api}" in permission["SourceArn"]["Fn::Sub"]


def test_the_relay_is_there_only_with_an_engine_and_closed(template: dict[str, Any]) -> None:
    relays = {name: r for name, r in template["Resources"].items() if name.startswith("Relay")}
    assert template["Parameters"]["EngineUrl"]["Default"] == ""
    assert template["Parameters"]["RelayAuthorization"]["Default"] == "AWS_IAM"
    assert {r["Condition"] for r in relays.values()} == {"HasRelay", "HasRelayKey", "HasOpenUrl", "HasRelayApi"}
    (url,) = of_type(template, "AWS::Lambda::Url").values()
    assert (url["AuthType"], url["InvokeMode"]) == ({"Fn::If": ["RelayByIam", "AWS_IAM", "NONE"]}, "RESPONSE_STREAM")
    opened = [r["Properties"] for r in relays.values() if r["Condition"] == "HasOpenUrl"]
    assert sorted(p["Action"] for p in opened) == ["lambda:InvokeFunction", "lambda:InvokeFunctionUrl"]
    assert all(p["Principal"] == "*" for p in opened)
    assert all(p.get("InvokedViaFunctionUrl") or p.get("FunctionUrlAuthType") == "NONE" for p in opened)
    conditions = template["Conditions"]
    assert conditions["HasOpenUrl"] == {
        "Fn::And": [{"Condition": "HasRelay"}, {"Fn::Not": [{"Condition": "RelayByIam"}]}]
    }
    key = relays["RelayFunction"]["Properties"]["Environment"]["Variables"]["DERENDER_API_KEY"]["Fn::If"]
    assert key == ["RelayByKey", {"Fn::Sub": "{{resolve:secretsmanager:${RelayKey}:SecretString}}"}, ""]


def test_the_relays_rest_api_streams_and_is_as_closed_as_its_address(template: dict[str, Any]) -> None:
    """Off by default. The adapter answers it in the form that streaming wants; IAM or the relay's own key lets in."""
    assert template["Parameters"]["RelayRestApi"]["Default"] == "false"
    on = {"Fn::Equals": ["true", {"Ref": "RelayRestApi"}]}
    assert template["Conditions"]["HasRelayApi"] == {"Fn::And": [{"Condition": "HasRelay"}, on]}
    ours = {name: r for name, r in template["Resources"].items() if name.startswith("RelayApi")}
    assert len(ours) == 7
    assert {r["Condition"] for r in ours.values()} == {"HasRelayApi"}
    method = ours["RelayApiMethod"]["Properties"]
    assert method["AuthorizationType"] == {"Fn::If": ["RelayByIam", "AWS_IAM", "NONE"]}
    integration = method["Integration"]
    assert (integration["Type"], integration["ResponseTransferMode"]) == ("AWS_PROXY", "STREAM")
    assert integration["TimeoutInMillis"] == 900_000
    wanted = "/2021-11-15/functions/${RelayFunction.Alias}/response-streaming-invocations"
    assert integration["Uri"]["Fn::Sub"].endswith(wanted)
    variables = template["Resources"]["RelayFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"


def test_an_open_address_has_a_most_and_alarms(template: dict[str, Any]) -> None:
    """Anybody can make an open address work, if only to be refused: it costs no more than its concurrency allows."""
    assert template["Parameters"]["RelayConcurrency"]["Default"] == -1
    reserved = of_type(template, "AWS::Serverless::Function")["RelayFunction"]["ReservedConcurrentExecutions"]
    assert reserved["Fn::If"][:2] == ["BoundsOpenUrl", 20]
    default = {"Fn::Equals": [-1, {"Ref": "RelayConcurrency"}]}
    assert template["Conditions"]["BoundsOpenUrl"] == {"Fn::And": [{"Condition": "HasOpenUrl"}, default]}
    alarms = of_type(template, "AWS::CloudWatch::Alarm")
    for name, metric in (("RelayRefused", "Url4xxCount"), ("RelayCalls", "Invocations")):
        assert alarms[f"{name}Alarm"]["MetricName"] == metric


def test_the_cost_of_an_open_address_is_stated(template: dict[str, Any]) -> None:
    """docs/operations.md has the sums that the prices and the template's defaults come to."""
    from benchmarks.stream_price import most_a_month

    memory = template["Parameters"]["RelayMemory"]["Default"]
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for concurrency in (1, 20):
        assert f"**${most_a_month(concurrency, memory):,.0f}**" in page


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"RELAY_HOST": "0.0.0.0"}, True),
        ({"RELAY_HOST": "0.0.0.0", "DERENDER_API_KEY": "k"}, False),
        ({"RELAY_HOST": "0.0.0.0", "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001"}, False),
        ({}, False),
    ],
)
def test_the_relays_script_says_that_there_is_no_key(environ: dict[str, str], *, told: bool, tmp_path: Path) -> None:
    (tmp_path / "python3").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", **environ}
    script = ROOT / "infra" / "package" / "run.sh"
    run = subprocess.run(["/bin/sh", script], env=environ, capture_output=True, text=True, check=True)
    assert "handlers.relay:app" in run.stdout
    assert ("no key (DERENDER_API_KEY)" in run.stderr) is told


def test_the_relays_server_listens_where_the_adapter_looks(template: dict[str, Any]) -> None:
    variables = of_type(template, "AWS::Serverless::Function")["RelayFunction"]["Environment"]["Variables"]
    script = (ROOT / "infra" / "package" / "run.sh").read_text()
    assert '"${AWS_LWA_PORT:-' in script
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"
    assert variables["AWS_LWA_READINESS_CHECK_PROTOCOL"] == "tcp"  # no path has to answer
    assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"


def test_a_function_may_read_its_model_and_write_its_log(template: dict[str, Any]) -> None:
    roles = of_type(template, "AWS::IAM::Role")
    assert {tuple(f["Role"]["Fn::GetAtt"]) for f in of_type(template, "AWS::Serverless::Function").values()} == {
        (name, "Arn") for name in roles
    }
    for role in roles.values():
        assert "ManagedPolicyArns" not in role
        allowed = {}
        for statement in role["Policies"][0]["PolicyDocument"]["Statement"]:
            statement = statement["Fn::If"][1] if "Fn::If" in statement else statement
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            allowed |= dict.fromkeys(actions, statement["Resource"])
        in_vpc = {action for action in allowed if action.startswith("ec2:")}
        assert bool(in_vpc) == (role["Policies"][0]["PolicyName"] == "relay")
        assert all(re.search("NetworkInterface|PrivateIpAddresses|DescribeSubnets", action) for action in in_vpc)
        assert set(allowed) - in_vpc == {
            "logs:CreateLogStream", "logs:PutLogEvents", "s3:GetObject", "xray:PutTraceSegments", "xray:PutTelemetryRecords",
        }  # fmt: skip
        assert allowed["s3:GetObject"]["Fn::Sub"].endswith(":s3:::${ModelBucket}/${ModelPrefix}/*")
        assert "log-group:/derender/${AWS::StackName}/" in allowed["logs:PutLogEvents"]["Fn::Sub"]


def test_logs_are_kept_for_a_time_and_hold_no_bodies(template: dict[str, Any]) -> None:
    groups = of_type(template, "AWS::Logs::LogGroup")
    assert len(groups) == 4
    assert all(group["RetentionInDays"] == {"Ref": "LogRetentionDays"} for group in groups.values())
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    fields = re.findall(r"\$context\.([A-Za-z.]+)", stage["AccessLogSettings"]["Format"])
    assert "status" in fields
    assert not any("body" in field.lower() or "header" in field.lower() for field in fields)
    json.loads(re.sub(r"\$context\.[A-Za-z.]+", "x", stage["AccessLogSettings"]["Format"]))


def test_alarms_and_dashboard(template: dict[str, Any]) -> None:
    alarms = of_type(template, "AWS::CloudWatch::Alarm")
    for function in FUNCTIONS:
        prefix = function.name.title().replace("-", "")
        of_function = [a for name, a in alarms.items() if re.fullmatch(rf"{prefix}[A-Z][a-z]+Alarm", name)]
        more = {"Url5xxCount", "Url4xxCount", "Invocations"} if function.name == "relay" else set()
        assert {alarm["MetricName"] for alarm in of_function} == {"Errors", "Throttles", "Duration"} | more
        assert [a["ExtendedStatistic"] for a in of_function if a["MetricName"] == "Duration"] == ["p99"]
    for name, function in of_type(template, "AWS::Serverless::Function").items():
        faults = "RelayFaultsAlarm" if name == "RelayFunction" else "ApiFaultsAlarm"
        assert {"Ref": faults} in function["DeploymentPreference"]["Alarms"]
    body, parts = template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    condition, relays, nothing = parts["RelayWidgets"]["Fn::If"]
    assert condition == "HasRelay"
    for more in (relays["Fn::Sub"], nothing):
        widgets = json.loads(re.sub(r"\$\{[^}]+\}", "x", body.replace("${RelayWidgets}", more)))["widgets"]
        assert len(widgets) == (7 if more == "" else 10)
        places = [(widget["x"], widget["y"]) for widget in widgets]
        assert len(set(places)) == len(places)


def test_every_resource_is_the_recorded_one() -> None:
    """An edit of a loop shows here, resource by resource. ``expansion.py`` says how the recording is written."""
    recorded = json.loads(EXPANSION.with_suffix(".json").read_text())
    found = expanded({})
    for section, entries in recorded.items():
        assert sorted(found[section]) == sorted(entries)
        for name, entry in entries.items():
            assert found[section][name] == entry, name


def test_a_changed_parameter_is_a_new_version_when_deployed_by_name() -> None:
    """SAM alone does not see it: what ``make deploy`` adds is what makes a rotated key arrive."""
    given = [{}, {"ToolCallParser": "hermes"}, {"Release": "a1"}, {"Release": "b2"}]
    results = [found["Resources"] for found in expanded(given)]
    versions = [
        sorted(name for name, resource in resources.items() if resource["Type"] == "AWS::Lambda::Version")
        for resources in results
    ]
    assert versions[0] == versions[1], "the gap in SAM that Release closes"
    assert len({tuple(names) for names in versions[1:]}) == 3
    assert all(len(names) == len(FUNCTIONS) for names in versions)
    for resource in results[0].values():
        if resource["Type"] == "AWS::Lambda::Alias":
            assert "CodeDeployLambdaAliasUpdate" in resource["UpdatePolicy"]
        if resource["Type"] == "AWS::Lambda::Function":
            relay = resource["Properties"]["Handler"] == "run.sh"
            assert resource["Properties"]["SnapStart"] == {
                "ApplyOn": {"Ref": "RelaySnapStart" if relay else "SnapStart"}
            }
            images = resource["Properties"]["Handler"] == "handlers.render_images.handler"
            assert resource.get("Condition") == ("HasRelay" if relay else "HasImages" if images else None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with what a deployment reads, and artefacts of no content."""
    for name in ("template.yaml", "samconfig.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "dist").mkdir()
    for function in FUNCTIONS:
        (tmp_path / "dist" / f"{function.name}-arm64.zip").write_bytes(b"1")
    return tmp_path


def overrides(command: list[str]) -> dict[str, str]:
    """The parameters of a command, as the SAM CLI itself reads them."""
    code = (
        "import json, sys; from samcli.cli.types import CfnParameterOverridesType\n"
        "print(json.dumps(CfnParameterOverridesType().convert(tuple(sys.argv[1:]), None, None)))"
    )
    given = command[command.index("--parameter-overrides") + 1 :]
    done = subprocess.run([SAM / "python", "-c", code, *given], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("stage", ["default", "production"])
def test_the_sam_cli_packages_the_loops_as_they_are(tree: Path, stage: str) -> None:
    """Both profiles, against an S3 of moto's: the artefacts arrive, and CloudFormation gets the loops."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
        s3 = boto3.client("s3", "us-east-1", endpoint_url=keys["AWS_ENDPOINT_URL"], aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
        s3.create_bucket(Bucket="artefacts")
        command = [SAM / "sam", "package", "--config-env", stage, "--s3-bucket", "artefacts", "--output-template-file", "out.yaml"]  # fmt: skip
        done = subprocess.run(command, cwd=tree, env={**ENVIRON, **keys}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        written = (tree / "out.yaml").read_text()
        addresses = re.findall(r"CodeUri: s3://artefacts/(\S+)", written)
        assert len(addresses) == len(FUNCTIONS)
        assert {entry["Key"] for entry in s3.list_objects_v2(Bucket="artefacts")["Contents"]} == set(addresses)
        loops = re.findall(r"Fn::ForEach::\w+", (ROOT / "template.yaml").read_text())
        assert loops
        assert re.findall(r"Fn::ForEach::\w+", written) == loops
        # Above 51,200 bytes the CLI wants a bucket, where the artefacts go anyway (resolve_s3 in both profiles).
        assert len(written.encode()) < 1_000_000, "CloudFormation takes no larger template from S3"
        assert "resolve_s3 = true" in (tree / "samconfig.toml").read_text().split(f"[{stage}.deploy.parameters]")[1]
    finally:
        server.stop()


def test_deploy_names_its_release_after_all_that_goes_in(tree: Path) -> None:
    given = ["ModelBucket=b", 'DefaultChatTemplateKwargs={"enable_thinking": false}', "ServedModelName=a b"]
    first = overrides(deploy_command(tree, "production", "arm64", given))
    assert first["DefaultChatTemplateKwargs"] == '{"enable_thinking": false}'
    assert (first["ServedModelName"], first["Deployment"]) == ("a b", "Canary10Percent5Minutes")
    parameters = set(re.findall(r"(?m)^  ([A-Za-z0-9]+):\n    Type:", (ROOT / "template.yaml").read_text()))
    assert set(first) <= parameters
    releases = [first["Release"], overrides(deploy_command(tree, "production", "arm64", given))["Release"]]
    assert releases[0] == releases[1], "the same again publishes nothing"
    releases.append(overrides(deploy_command(tree, "production", "arm64", [*given, "StateKeyRevision=2"]))["Release"])
    (tree / "dist" / "render-arm64.zip").write_bytes(b"2")
    releases.append(overrides(deploy_command(tree, "production", "arm64", given))["Release"])
    assert len(set(releases)) == 3


@pytest.mark.parametrize(
    ("stage", "arch", "given", "words"),
    [("none", "arm64", [], "no profile"), ("default", "x86_64", [], "make package"), ("default", "arm64", ["x"], "NAME=VALUE")],
)  # fmt: skip
def test_a_deployment_that_cannot_be_is_said_so(
    tree: Path, stage: str, arch: str, given: list[str], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        deploy_command(tree, stage, arch, given)


def test_the_profiles_hold_parameters_of_the_template(template: dict[str, Any]) -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    for stage in ("default", "production"):
        for override in config[stage]["deploy"]["parameters"]["parameter_overrides"]:
            name, value = override.split("=", 1)
            allowed = template["Parameters"][name].get("AllowedValues")
            assert allowed is None or value in map(str, allowed), override
    for command in ("local_invoke", "local_start_api"):
        assert config["default"][command]["parameters"]["template_file"] == "dist/local.yaml"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_local_template_has_the_stacks_functions_routes_and_settings(
    template: dict[str, Any], target: Target
) -> None:
    local = yaml.safe_load(local_template((ROOT / "template.yaml").read_text(), target))
    stack, here = (of_type(one, "AWS::Serverless::Function") for one in (template, local))
    assert set(here) == set(stack)
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    routed = set()
    for name, function in here.items():
        assert stack[name]["CodeUri"] == f"dist/{function['CodeUri'].replace(target.name, 'arm64')}"
        assert (function["Architectures"], function["Runtime"]) == (
            [target.name],
            template["Globals"]["Function"]["Runtime"],
        )
        known = {
            *shared,
            *stack[name].get("Environment", {}).get("Variables", {}),
            "WEB_ADAPTER_START",
            "WEB_ADAPTER_INIT_SECONDS",
        }
        assert set(function["Environment"]["Variables"]) <= known
        if name == "RelayFunction":
            assert function["Layers"] == [{"Ref": "WebAdapter"}]
            continue
        assert function["Handler"] == stack[name]["Handler"]
        routed |= {
            f"{event['Properties']['Method']} {event['Properties']['Path']}" for event in function["Events"].values()
        }
    assert routed == {route["RouteKey"] for route in of_type(template, "AWS::ApiGatewayV2::Route").values()}


def test_the_image_is_made_of_the_artefacts() -> None:
    text = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"(?m)^FROM \$\{BASE\} AS (\S+)$", text)
    for function in FUNCTIONS:
        assert function.name in stages
        stage = text.split(f"AS {function.name}\n")[1].split("\nFROM")[0]
        command = json.loads(re.findall(r"(?m)^(?:CMD|ENTRYPOINT) (.*)$", stage)[0])
        assert command == (["/bin/sh", function.start] if function.start else [function.handler])
        assert f"ADD dist/images/{function.name}-${{ARCH}}.tar.gz ${{LAMBDA_TASK_ROOT}}/" in stage

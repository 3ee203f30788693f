"""How a server listens: real processes, real sockets, real certificates."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.errors import ConfigurationError
from handlers.commands.workers import reserve
from handlers.network import Network, bound_socket, network_from_environ
from tests.support.servers import free_port, running
from tests.support.waiting import wait_for

DERENDER = (sys.executable, "-m", "handlers.commands")
BODY = {"messages": [{"role": "user", "content": "Hi"}]}


def failed(*arguments: str, **environ: str) -> str:
    """The one line with which a start ends."""
    done = subprocess.run(
        [*DERENDER, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **environ}
    )
    assert done.returncode in (1, 2), done.stderr
    assert len(done.stderr.splitlines()) == 1 or done.returncode == 2, done.stderr
    return done.stderr


@contextmanager
def started(command: list[str], client: httpx.Client, environ: dict[str, str] | None = None) -> Iterator[httpx.Client]:
    """A server that is no plain HTTP on a port, from its first answer on."""
    process = subprocess.Popen([*DERENDER, *command], env={**os.environ, **(environ or {})}, stderr=subprocess.PIPE)
    try:
        assert wait_for(lambda: _answers(client), 120)
        yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(built.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_tls_and_certificates_of_clients(models_dir: Path, tmp_path: Path) -> None:
    shown, key = certificate(tmp_path)
    port = free_port()
    command = ["serve", str(models_dir / "qwen3"), "--host", "localhost", "--port", str(port)]
    command += [
        "--ssl-certfile",
        str(shown),
        "--ssl-keyfile",
        str(key),
        "--ssl_ca_certs",
        str(shown),
        "--ssl-cert-reqs",
        "2",
    ]
    context = ssl.create_default_context(cafile=str(shown))
    context.load_cert_chain(shown, key)
    with httpx.Client(verify=context, base_url=f"https://localhost:{port}") as client, started(command, client):
        assert client.post("/v1/chat/completions/render", json=BODY).status_code == 200
        with pytest.raises(httpx.TransportError):  # a client without a certificate
            httpx.get(f"https://localhost:{port}/health", verify=ssl.create_default_context(cafile=str(shown)))


def test_a_unix_socket(models_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "derender.sock"
    left = socket.socket(socket.AF_UNIX)  # what a server that was killed leaves
    left.bind(str(path))
    left.close()
    client = httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://derender")
    with client, started(["serve", str(models_dir / "qwen3"), "--uds", str(path)], client):
        assert client.post("/v1/chat/completions/render", json=BODY).status_code == 200
        assert "another server's" in failed("serve", str(models_dir / "qwen3"), "--uds", str(path))
    assert not path.exists()


def test_from_a_file(models_dir: Path, tmp_path: Path) -> None:
    """Names of flags either way, lists, an object, switches on and off, the model; the command line wins."""
    port = free_port()
    config = {
        "model": str(models_dir / "qwen3"),
        "served-model-name": ["one", "two"],
        "default_chat_template_kwargs": {"enable_thinking": False},
        "enable-auto-tool-choice": True,
        "trust-request-chat-template": False,
        "tool-call-parser": "hermes",
        "port": 1,
        "allowed-origins": ["https://page.example"],
        "max_model_len": None,
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    command = [*DERENDER, "serve", "--config", str(path), "--port", str(port)]
    with running(command, port, seconds=120), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["one", "two"]
        rendered = client.post("/v1/chat/completions/render", json=BODY).json()
        plain = client.post(
            "/v1/chat/completions/render", json={**BODY, "chat_template_kwargs": {"enable_thinking": True}}
        )
        assert len(rendered["token_ids"]) > len(plain.json()["token_ids"])  # an empty thought
        asked = {"origin": "https://page.example", "access-control-request-method": "POST"}
        allowed = client.options("/v1/chat/completions/render", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://page.example"
        other = client.options("/v1/chat/completions/render", headers={**asked, "origin": "https://other.example"})
        assert other.status_code == 400


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- a", "must hold names of flags"),
        ("a: [", "no YAML"),
        ("tool-call-parser: true", "tool-call-parser takes a value"),
        ("enable-auto-tool-choice: maybe", "must be true or false, not 'maybe'"),
        ("no-such-flag: 1", "unrecognized arguments: --no-such-flag=1"),
        ("a: !!python/object/apply:os.system ['true']", "no YAML"),
        ("[" * 100_000, "no YAML"),
        ("x: " + "y" * 1_000_001, "more than 1000000 bytes"),
        (None, "No such file"),
    ],
    ids=range(9),
)
def test_files_that_are_none(models_dir: Path, tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    assert reason in failed("serve", str(models_dir / "qwen3"), "--config", str(path))


def test_from_the_environment_alone(models_dir: Path) -> None:
    """In a cluster with a Service called derender, too: it sets DERENDER_PORT in every pod."""
    port = free_port()
    environ = {
        **os.environ,
        "DERENDER_MODEL": str(models_dir / "qwen3"),
        "DERENDER_PORT": str(port),
        "DERENDER_SERVICE_HOST": "10.0.0.1",
        "DERENDER_ALLOWED_ORIGINS": "https://page.example",
    }
    with running([*DERENDER, "serve"], port, seconds=120, environ=environ):
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/models", headers={"origin": "https://page.example"})
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
    found, rest = network_from_environ({"DERENDER_PORT": "tcp://10.0.0.1:8000", "DERENDER_MODEL": "m"})
    assert found.port == 8000
    assert rest == {"DERENDER_MODEL": "m"}


def test_no_origin_may_call_by_default_and_keys_are_not_asked_of_a_browser(models_dir: Path) -> None:
    port = free_port()
    command = [*DERENDER, "serve", str(models_dir / "qwen3"), "--port", str(port), "--api-key", "k"]
    asked = {"origin": "https://page.example", "access-control-request-method": "POST"}
    with running(command, port, seconds=120):
        assert (
            "access-control-allow-origin"
            not in httpx.options(f"http://127.0.0.1:{port}/tokenize", headers=asked).headers
        )
    port = free_port()  # another: meanwhile the first may be somebody else's
    command[command.index("--port") + 1] = str(port)
    with running([*command, "--allowed-origins", '["https://page.example"]'], port, seconds=120):
        url = f"http://127.0.0.1:{port}/tokenize"
        assert httpx.options(url, headers=asked).status_code == 200
        refused = httpx.post(url, headers=asked, json={"prompt": "x"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://page.example"  # so that the page may read it


def test_an_address_that_is_taken(models_dir: Path) -> None:
    """It is said before the model is loaded, in one line, for one process and for several."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for more in ((), ("--workers", "2")):
            told = failed("serve", str(models_dir / "qwen3"), "--port", port, *more)
            assert f"127.0.0.1:{port}" in told
            assert "in use" in told


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--port", "99999"), "--port must be between 0 and 65535"),
        (("--port", "x"), "--port must be a whole number"),
        (("--workers", "0"), "--workers must be at least 1"),
        (("--max_body_bytes", "0"), "--max-body-bytes must be at least 1"),
        (("--ssl-keyfile", "k"), "--ssl-keyfile and DERENDER_SSL_CERTFILE go together"),
        (("--ssl-keyfile", "/no/k", "--ssl-certfile", "/no/c"), "/no/k cannot be read"),
        (("--ssl-cert-reqs", "7"), "--ssl-cert-reqs must be 0, 1 or 2"),
        (("--ssl-cert-reqs", "2"), "--ssl-cert-reqs requires"),
        (("--allowed-origins", "*", "--allow-credentials"), "--allow-credentials with every origin"),
        (("--allowed-origins", "[1]"), "--allowed-origins must be a JSON list of strings"),
        (("--require-engine-version",), "--require-engine-version requires"),
    ],
    ids=range(11),
)
def test_a_message_names_the_flag_that_was_typed(models_dir: Path, flags: tuple[str, ...], reason: str) -> None:
    assert f"derender: {reason}" in failed("serve", str(models_dir / "qwen3"), *flags)


def test_a_message_names_the_variable_that_was_set(models_dir: Path) -> None:
    told = failed("serve", str(models_dir / "qwen3"), DERENDER_PORT="x")
    assert told == "derender: DERENDER_PORT must be a whole number, not 'x'\n"
    assert failed("serve") == "derender: DERENDER_MODEL must name a model folder or bundle\n"


def test_the_version() -> None:
    told = subprocess.run([*DERENDER, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert told == "derender 0.1.0, parsers of vLLM 0.33.0\n"


@pytest.mark.parametrize("held", [lambda: bound_socket(Network(port=0)), lambda: reserve(Network(port=0))])
def test_small_answers_are_sent_at_once(held: Callable[[], socket.socket]) -> None:
    """asyncio switches Nagle's waiting off only for sockets that say that they are of TCP: a request took twice the time."""
    with held() as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_what_only_this_machine_reaches() -> None:
    assert Network(host="::1").is_private
    assert Network(uds="/x").is_private
    assert not Network(host="0.0.0.0").is_private
    assert Network(host="::1").address == "http://[::1]:8000"
    with pytest.raises(ConfigurationError, match="UDS has one process"):
        Network(uds="/x", workers=2)

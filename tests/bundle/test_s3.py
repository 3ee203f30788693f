"""Bundles in S3, against a real server with faults: nothing partial or altered is used, and every fault has a line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.bundle.contents import bundle_contents
from core.bundle.folder import FolderFiles
from core.bundle.manifest import MANIFEST_NAME, Manifest, dump_manifest, entry_of
from core.bundle.s3 import Clock, FetchLimits, S3Address, S3Files, parse_address, upload
from core.errors import ConfigurationError, Unavailable
from handlers.commands.command_line import main
from handlers.loading import ModelLoader
from handlers.settings import Settings
from tests.support.faulty_s3 import CREDENTIALS, Fault, FaultyS3, faulty_s3
from tests.support.models import load
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("s3")
BUCKET = "models"
FILES = {"config.json": b"{}", "tokenizer.json": b"t" * 400_000, "derender-vocab.bin": os.urandom(600_000)}
# No machine is so slow that these end a healthy load.
LIMITS = FetchLimits(connect=PATIENCE, read=PATIENCE, total=10 * PATIENCE, attempts=3)
# For what never answers, and for what would go on for hours: that it ends is a matter of time, when is not tested.
IMPATIENT = replace(LIMITS, read=0.5)
SHORT = replace(LIMITS, total=1.0)


class GivenClock:
    """Time that only passes in sleep, which takes none."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float, /) -> None:
        self.slept.append(seconds)
        self.now += seconds


def as_bundle(files: dict[str, bytes]) -> dict[str, bytes]:
    manifest = Manifest(files={name: entry_of(data) for name, data in files.items()})
    return {**files, MANIFEST_NAME: dump_manifest(manifest)}


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with faulty_s3() as running:
        running.client().create_bucket(Bucket=BUCKET)
        yield running


@pytest.fixture(autouse=True)
def surroundings(server: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server.faults.clear()
    server.requests.clear()


@pytest.fixture
def address(server: FaultyS3, request: pytest.FixtureRequest) -> S3Address:
    """A fresh prefix with a small bundle in it."""
    address = S3Address(BUCKET, f"p{abs(hash(request.node.nodeid))}/v1")
    assert upload(address, as_bundle(FILES))
    server.requests.clear()
    return address


def reason_of(address: S3Address, folder: Path, limits: FetchLimits = LIMITS, clock: Clock | None = None) -> str:
    with pytest.raises(Unavailable) as caught:
        S3Files(address, folder, limits, clock=clock or GivenClock())
    assert str(address) not in caught.value.message, "the client is not told where the model is"
    assert "\n" not in caught.value.reason
    return caught.value.reason


def test_every_file_comes_once(server: FaultyS3, address: S3Address, tmp_path: Path) -> None:
    files = S3Files(address, tmp_path, LIMITS)
    assert files.names() == sorted(FILES)
    assert {name: files.read(name) for name in FILES} == FILES
    assert len(server.requests) == len(FILES) + 1
    assert files.origin == f"s3://{BUCKET}/{address.prefix}"
    with pytest.raises(ConfigurationError, match="not in the manifest"):
        files.read("other.json")


def test_a_second_start_asks_for_nothing_and_does_not_load_boto3(
    server: FaultyS3, address: S3Address, tmp_path: Path
) -> None:
    S3Files(address, tmp_path, LIMITS)
    server.requests.clear()
    code = (
        "import sys; from pathlib import Path; from core.bundle.s3 import S3Files, parse_address\n"
        "files = S3Files(parse_address(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(len(files.read('tokenizer.json')), 'boto3' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(address), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["400000", "False"]
    assert server.requests == []


def test_files_for_later_wait_for_their_reader(server: FaultyS3, address: S3Address, tmp_path: Path) -> None:
    files = S3Files(address, tmp_path, LIMITS, later=("tokenizer.json",))
    assert not any("tokenizer.json" in request for request in server.requests)
    assert files.read("tokenizer.json") == FILES["tokenizer.json"]


_KEPT = """
import gc, os, socket, sys
from pathlib import Path
from core.bundle.s3 import FetchLimits, S3Files, parse_address
from core.errors import Unavailable
try:
    limits = FetchLimits(connect=60, read=60, total=600)
    files = S3Files(parse_address(sys.argv[1]), Path(sys.argv[2]), limits, later=("tokenizer.json",))
    files.read("tokenizer.json")
except Unavailable:
    pass
assert "boto3" in sys.modules
gc.collect()
open_sockets = [o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() >= 0]
print(len(open_sockets), sum(type(o).__name__ in ("S3", "Credentials") for o in gc.get_objects()))
"""


@pytest.mark.parametrize("fault", [None, Fault(status=403, code="AccessDenied")])
def test_no_connection_and_no_credential_is_kept(
    server: FaultyS3, address: S3Address, tmp_path: Path, fault: Fault | None
) -> None:
    if fault:
        server.faults["/config.json"] = fault
    command = [sys.executable, "-c", _KEPT, str(address), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut=1000, times=2),
        Fault(cut=0, times=1),
        Fault(flip=5000, times=2),
        Fault(drop=True, times=2),
        Fault(status=503, code="SlowDown", times=2),
        Fault(status=500, code="InternalError", times=1),
        Fault(silent=True, times=1),
    ],
    ids=["cut", "cut at once", "altered", "dropped", "slow down", "internal error", "no answer"],
)
def test_a_passing_fault_is_got_over(server: FaultyS3, address: S3Address, tmp_path: Path, fault: Fault) -> None:
    server.faults["/derender-vocab.bin"] = fault
    # Each try is given up after half a second: one of fifty healthy ones meets that on any machine.
    limits = replace(IMPATIENT, attempts=50) if fault.silent else LIMITS
    files = S3Files(address, tmp_path, limits, clock=GivenClock())
    assert fault.times == 0
    assert files.read("derender-vocab.bin") == FILES["derender-vocab.bin"]
    assert sum("derender-vocab.bin" in request for request in server.requests) <= limits.attempts


@pytest.mark.parametrize(
    ("end", "fault", "words"),
    [
        (MANIFEST_NAME, Fault(status=403, code="AccessDenied"), "no permission"),
        ("/config.json", Fault(status=403, code="AccessDenied"), "no permission"),
        (MANIFEST_NAME, Fault(status=404, code="NoSuchKey"), "no such object"),
        (MANIFEST_NAME, Fault(status=404, code="NoSuchBucket"), "no such bucket"),
        ("/config.json", Fault(status=404, code="NoSuchKey"), "config.json: there is no such object"),
        (MANIFEST_NAME, Fault(status=400, code="AuthorizationHeaderMalformed"), "another region"),
        ("", Fault(status=301, code="PermanentRedirect", headers={"x-amz-bucket-region": "eu-west-1"}), "eu-west-1"),
        ("/config.json", Fault(status=503, code="SlowDown"), "503 (SlowDown) (3 tries)"),
        ("/tokenizer.json", Fault(cut=1000), "connection to S3 failed"),
        ("/tokenizer.json", Fault(flip=100), "does not match its SHA-256"),
        ("/tokenizer.json", Fault(drop=True), "connection to S3 failed"),
        ("/tokenizer.json", Fault(silent=True), "too slow, or does not answer"),
        ("/tokenizer.json", Fault(trickle=0.05), "too slow"),
        (MANIFEST_NAME, Fault(trickle=1.0), "too slow"),
        (MANIFEST_NAME, Fault(flip=0), "is not a manifest"),
    ],
)  # fmt: skip
def test_a_lasting_fault_has_one_line_and_the_next_try_succeeds(
    server: FaultyS3, address: S3Address, tmp_path: Path, end: str, fault: Fault, words: str
) -> None:
    server.faults[end] = fault
    began = time.monotonic()
    limits = SHORT if fault.trickle else IMPATIENT if fault.silent else LIMITS
    reason = reason_of(address, tmp_path, limits)
    assert words in reason
    assert str(address) in reason
    # What trickles would take eight minutes, or hours: it is not waited for.
    assert time.monotonic() - began < 2 * PATIENCE
    server.faults.clear()
    files = S3Files(address, tmp_path, LIMITS)
    assert {name: files.read(name) for name in FILES} == FILES


def test_requests_are_counted_and_bounded(server: FaultyS3, address: S3Address, tmp_path: Path) -> None:
    server.faults["/config.json"] = Fault(status=500, code="InternalError")
    reason_of(address, tmp_path)
    assert sum("config.json" in request for request in server.requests) == LIMITS.attempts
    server.requests.clear()
    server.faults["/config.json"] = Fault(status=403, code="AccessDenied")
    reason_of(address, tmp_path / "other")
    assert sum("config.json" in request for request in server.requests) == 1


def test_no_try_begins_that_could_not_end_in_time(server: FaultyS3, address: S3Address, tmp_path: Path) -> None:
    server.faults["/config.json"] = Fault(status=503, code="SlowDown")
    clock = GivenClock()
    limits = replace(LIMITS, total=5.0, attempts=50)
    reason = reason_of(address, tmp_path, limits, clock)
    tries = sum("config.json" in request for request in server.requests)
    assert f"503 (SlowDown) ({tries} tries)" in reason
    assert len(clock.slept) == tries - 1
    assert sum(clock.slept) <= limits.total
    # The next pause would have been longer than what was left.
    assert sum(clock.slept) + min(0.1 * 2**tries, 2.0) > limits.total
    # Pauses grow to two seconds, and are drawn from the upper half, so that functions do not come back together.
    for number, pause in enumerate(clock.slept, 1):
        longest = min(0.1 * 2**number, 2.0)
        assert longest / 2 <= pause <= longest


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert "connection to S3 failed" in reason_of(S3Address("b", "p"), tmp_path)


def test_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "no AWS credentials" in reason_of(S3Address("b", "p"), tmp_path / "store")


def test_a_full_disk(server: FaultyS3, address: S3Address, tmp_path: Path) -> None:
    reason, partial = (_on_small_disk if _mounts() else _with_file_limit)(address, tmp_path)
    assert "the disk is full" in reason
    assert "bytes are needed" in reason
    assert partial == "[]", "what did not fit is removed"


_FETCH = (
    "import sys; from pathlib import Path\n"
    "from core.bundle.s3 import FetchLimits, S3Files, parse_address\n"
    "from core.errors import Unavailable\n"
    "limits = FetchLimits(connect=60, read=60, total=600)\n"
    "try: S3Files(parse_address(sys.argv[1]), Path(sys.argv[2]), limits)\n"
    "except Unavailable as exc: print(exc.reason)\n"
    "print(sorted(p.name for p in Path(sys.argv[2]).iterdir() if 'partial' in p.name))"
)


def _mounts() -> bool:
    return os.getuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def _on_small_disk(address: S3Address, folder: Path) -> list[str]:
    script = 'mount -t tmpfs -o size=500k,mode=700 none "$0" && exec "$@"'
    return _lines(
        ["unshare", "--mount", "sh", "-c", script, str(folder), sys.executable, "-c", _FETCH], address, folder
    )


def _with_file_limit(address: S3Address, folder: Path) -> list[str]:
    """Without the right to mount a small disk: a limit on the size of files fails the write in the same place."""
    code = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n" + _FETCH
    return _lines([sys.executable, "-c", code], address, folder)


def _lines(command: list[str], address: S3Address, folder: Path) -> list[str]:
    done = subprocess.run([*command, str(address), str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_disk_of_which_a_file_may_not_be_that_large(address: S3Address, tmp_path: Path) -> None:
    reason, partial = _with_file_limit(address, tmp_path)
    assert "the disk is full" in reason
    assert partial == "[]"


@pytest.mark.parametrize("change", ["truncate", "flip", "remove"])
def test_a_local_copy_that_changed_is_fetched_anew(
    server: FaultyS3, address: S3Address, tmp_path: Path, change: str
) -> None:
    files = S3Files(address, tmp_path, LIMITS)
    copy = tmp_path / files.digest("tokenizer.json")
    if change == "remove":
        copy.unlink()
    else:
        data = bytearray(copy.read_bytes())
        data[0] ^= 1
        copy.write_bytes(bytes(data) if change == "flip" else bytes(data[1:]))
    server.requests.clear()
    assert S3Files(address, tmp_path, LIMITS).read("tokenizer.json") == FILES["tokenizer.json"]
    assert [request for request in server.requests if "GET" in request] == [
        f"GET /{BUCKET}/{address.prefix}/tokenizer.json"
    ]


def test_what_a_dead_process_left_is_swept(address: S3Address, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, running = tmp_path / f".partial-{dead.pid}-0", tmp_path / f".partial-{os.getppid()}-0"
    for path in (left, running):
        path.write_bytes(b"x" * 1000)
    S3Files(address, tmp_path, LIMITS)
    assert not left.exists()
    assert running.exists()


def test_a_store_of_somebody_else_is_not_used(
    address: S3Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert "belongs to another user" in reason_of(address, tmp_path)


@pytest.mark.parametrize("url", ["s3://", "s3://bucket", "s3://bucket/", "s3:///prefix", "http://bucket/prefix"])
def test_an_address_is_a_bucket_and_a_prefix(url: str) -> None:
    with pytest.raises(ConfigurationError, match="s3://bucket/prefix"):
        parse_address(url)


def test_bundle_writes_to_s3_and_the_loader_serves_it(
    server: FaultyS3,
    models_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"s3://{BUCKET}/qwen3/{os.getpid()}"
    assert main(["bundle", str(models_dir / "qwen3"), url]) == 0
    assert "derender-vocab.bin" in capsys.readouterr().out
    puts = [request for request in server.requests if request.startswith("PUT")]
    assert puts[-1].endswith(MANIFEST_NAME), "the manifest is last: until then there is no bundle"
    prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
    stored = {key.removeprefix(prefix): data for key, data in server.objects(BUCKET, prefix).items()}
    assert stored == bundle_contents(FolderFiles(models_dir / "qwen3"))

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("core.bundle.s3.FetchLimits", lambda: LIMITS)  # the loader takes the default ones
    server.requests.clear()
    decoding = ModelLoader(Settings(model=url), encodes=False).get()
    assert decoding.tokenizer.decode([9707, 1879]) == "Hello world"
    assert not any("/tokenizer.json" in request for request in server.requests)
    assert ModelLoader(Settings(model=url)).get().tokenizer.encode("Hello world") == [9707, 1879]
    folder = load(models_dir / "qwen3", served_names=("m",))
    assert decoding.stream_config == folder.stream_config, "a stream may move between the two"


def test_a_prefix_is_written_once(server: FaultyS3, address: S3Address) -> None:
    assert not upload(address, as_bundle(FILES)), "the same bundle again is nothing to do"
    assert not any(request.startswith("PUT") for request in server.requests)
    with pytest.raises(ConfigurationError, match="new prefix"):
        upload(address, as_bundle({**FILES, "config.json": b"[]"}))
    assert server.objects(BUCKET, address.prefix)[address.key("config.json")] == b"{}"


def test_an_upload_that_fails_leaves_no_bundle(
    server: FaultyS3, tmp_path: Path, models_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = S3Address(BUCKET, f"broken/{os.getpid()}")
    server.faults["/tokenizer.json"] = Fault(status=403, code="AccessDenied")
    assert main(["bundle", str(models_dir / "qwen3"), str(address)]) == 1
    assert "no permission" in capsys.readouterr().err
    server.faults.clear()
    assert "no such object" in reason_of(address, tmp_path)


def test_a_race_of_two_uploads_has_one_winner(server: FaultyS3) -> None:
    address = S3Address(BUCKET, f"race/{os.getpid()}")
    server.client().put_object(Bucket=BUCKET, Key=address.key(MANIFEST_NAME), Body=b"the other's")
    server.faults[MANIFEST_NAME] = Fault(status=404, code="NoSuchKey", times=1)  # the other's was not there yet
    with pytest.raises(ConfigurationError, match="somebody else wrote there"):
        upload(address, as_bundle(FILES))
    assert server.objects(BUCKET, address.prefix)[address.key(MANIFEST_NAME)] == b"the other's"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_store_that_others_may_write_to_is_not_used(address: S3Address, tmp_path: Path, mode: int) -> None:
    """What its pointer file says is believed."""
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(mode)
    assert "other users may write" in reason_of(address, store)


def test_a_store_that_is_a_link_is_not_used(address: S3Address, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "store").symlink_to(tmp_path / "real")
    assert "is a link" in reason_of(address, tmp_path / "store")

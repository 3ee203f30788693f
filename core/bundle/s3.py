"""A model bundle in S3: fetched once into a local store, and written there by ``derender bundle``.

The only module that loads boto3, and only when something has to be asked of
S3: a start that finds everything in its store sends no request. A file that
is partial or does not match the manifest never leaves the fetch.

A prefix is written once. A new version of a model gets a new prefix: running
functions, and streams in flight, go on with the one that they know.
"""

from __future__ import annotations

import errno
import hashlib
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from core.bundle.manifest import MANIFEST_NAME, FileEntry, Manifest, load_manifest
from core.bundle.s3_errors import Damaged, explain, status_of
from core.bundle.store import ObjectStore, pointer_name
from core.errors import ConfigurationError, Unavailable

SCHEME = "s3://"
_BLOCK = 256 * 1024
# Seconds for the other downloads to stop after one has failed.
_GRACE = 0.5
# A manifest lists a dozen files; anything larger is not one.
_MAX_MANIFEST = 1024 * 1024


_Job = Callable[[threading.Event], None]


@dataclass(frozen=True)
class S3Address:
    """``s3://bucket/prefix``. The prefix holds no leading or trailing slash."""

    bucket: str
    prefix: str

    def key(self, name: str) -> str:
        """The object's key of a file of the bundle."""
        return f"{self.prefix}/{name}"

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"


def parse_address(url: str) -> S3Address:
    """Read an ``s3://bucket/prefix`` address.

    Raises:
        ConfigurationError: it is not one. A bucket's root is refused: permissions are granted on a prefix.
    """
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    prefix = prefix.strip("/")
    if not url.startswith(SCHEME) or not bucket or not prefix:
        raise ConfigurationError(f"{url!r} is not an address of the form s3://bucket/prefix")
    return S3Address(bucket, prefix)


@dataclass(frozen=True)
class FetchLimits:
    """Bounds of one load, in seconds and tries of one object.

    ``total`` stays below the ten seconds of Lambda's init phase: a load that
    fails there with a word of its own is tried again by the next request,
    one that is cut off there starts a new process.
    """

    connect: float = 2.0
    read: float = 4.0
    total: float = 8.0
    attempts: int = 3
    workers: int = 8


class Clock(Protocol):
    """What a load reads the time from and sleeps by; the module ``time`` is one."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class S3Files:
    """The files of a bundle in S3, as ``core.bundle.folder.ModelFiles``.

    All files are fetched at once, side by side, but for those named in
    ``later``: they are fetched by the first ``read``.

    Raises:
        Unavailable: something could not be fetched; ``reason`` says what.
    """

    def __init__(
        self,
        address: S3Address,
        folder: Path,
        limits: FetchLimits | None = None,
        later: Collection[str] = (),
        clock: Clock = time,
    ) -> None:
        self._address = address
        self._limits = limits or FetchLimits()
        self._clock = clock
        try:
            self._store = ObjectStore(folder)
        except OSError as exc:
            raise _unavailable(f"cannot use {folder} for the files of {address}: {exc.strerror or exc}") from exc
        deadline = clock.monotonic() + self._limits.total
        try:
            self._manifest = self._remembered() or self._fetch_manifest(deadline)
            self._fetch([name for name in self._manifest.files if name not in later], deadline)
        finally:
            self._forget_client()

    @property
    def origin(self) -> str:
        return str(self._address)

    def names(self) -> list[str]:
        return sorted(self._manifest.files)

    def digest(self, name: str) -> str:
        return self._entry(name).sha256

    @property
    def encoder_proof(self) -> Mapping[str, Any] | None:
        return self._manifest.encoder_proof

    def read(self, name: str) -> bytes:
        """The whole file, checked; fetched when it is not there, or not what it should be.

        Raises:
            ConfigurationError: it is not in the manifest.
            Unavailable: it could not be fetched.
        """
        entry = self._entry(name)
        for _ in range(2):
            try:
                self._fetch([name], self._clock.monotonic() + self._limits.total)
            finally:
                self._forget_client()
            try:
                return self._manifest.check(name, self._store.path(entry.sha256).read_bytes())
            except (ConfigurationError, FileNotFoundError):
                self._store.discard(entry.sha256)  # altered or removed since: never used, fetched anew
            except OSError as exc:
                raise _unavailable(f"cannot read the local copy of {name}: {exc.strerror}") from exc
        raise _unavailable(f"the local copy of {name} is altered as soon as it is written")

    def _entry(self, name: str) -> FileEntry:
        if name not in self._manifest.files:
            raise ConfigurationError(f"model bundle: {name} is not in the manifest")
        return self._manifest.files[name]

    @property
    def _pointer(self) -> str:
        return pointer_name(str(self._address))

    def _remembered(self) -> Manifest | None:
        """The manifest of an earlier start in this environment."""
        try:
            return load_manifest(self._store.path(self._pointer).read_bytes())
        except (OSError, ConfigurationError):
            return None

    def _fetch_manifest(self, deadline: float) -> Manifest:
        source = f"{self._address}/{MANIFEST_NAME}"
        jobs: list[_Job] = [lambda stop: self._download(MANIFEST_NAME, None, self._pointer, deadline, stop)]
        _run(jobs, 1, deadline - self._clock.monotonic(), source)
        try:
            return load_manifest(self._store.path(self._pointer).read_bytes())
        except (OSError, ConfigurationError) as exc:
            self._store.discard(self._pointer)
            raise _unavailable(f"{source} cannot be used: {exc}") from exc

    def _fetch(self, names: Sequence[str], deadline: float) -> None:
        jobs: list[_Job] = []
        # The largest first: the others fit beside it.
        for name in sorted(names, key=lambda n: -self._manifest.files[n].size):
            entry = self._manifest.files[name]
            if not self._store.has(entry.sha256, entry.size):

                def job(stop: threading.Event, name: str = name, entry: FileEntry = entry) -> None:
                    self._download(name, entry, entry.sha256, deadline, stop)

                jobs.append(job)
        if not jobs:
            return
        _ = self._client  # made once, here: making it is not safe in several threads
        try:
            _run(jobs, self._limits.workers, deadline - self._clock.monotonic(), str(self._address))
        except Unavailable:
            # The fault may lie in what the manifest says: the next try asks for it again.
            self._store.discard(self._pointer)
            raise

    def _download(
        self, name: str, entry: FileEntry | None, target: str, deadline: float, stop: threading.Event
    ) -> None:
        """Fetch one object into the store, with bounded retries."""
        source = f"{self._address}/{name}"
        for attempt in range(1, self._limits.attempts + 1):
            try:
                with self._store.writing(target) as file:
                    self._copy(name, entry, file.write, deadline, stop)
                return
            except Exception as exc:
                text, retry = self._explain(exc)
                pause = min(0.1 * 2**attempt, 2.0) * (0.5 + random.random() / 2)
                is_last = attempt == self._limits.attempts or self._clock.monotonic() + pause > deadline
                if is_last or not retry or stop.is_set():
                    tries = f" ({attempt} tries)" if attempt > 1 else ""
                    raise _unavailable(f"cannot fetch {source}: {text}{tries}") from exc
                self._clock.sleep(pause)

    def _copy(
        self,
        name: str,
        entry: FileEntry | None,
        write: Callable[[bytes], int],
        deadline: float,
        stop: threading.Event,
    ) -> None:
        limit = _MAX_MANIFEST if entry is None else entry.size
        body = self._client.get_object(Bucket=self._address.bucket, Key=self._address.key(name))["Body"]
        try:
            digest, size = hashlib.sha256(), 0
            while block := body.read(_BLOCK):
                size += len(block)
                if size > limit:
                    raise Damaged(f"it is larger than the {limit} bytes that it may have")
                if self._clock.monotonic() > deadline or stop.is_set():
                    raise TimeoutError
                digest.update(block)
                write(block)
        finally:
            body.close()
        if entry is not None and size != entry.size:
            raise Damaged(f"{size} of {entry.size} bytes came")
        if entry is not None and digest.hexdigest() != entry.sha256:
            raise Damaged("it does not match its SHA-256 in the manifest")

    @cached_property
    def _client(self) -> Any:
        limits = self._limits
        try:
            return _client(limits.connect, limits.read, limits.workers)
        except Exception as exc:  # botocore raises here for a wrong region or profile
            raise _unavailable(f"cannot ask S3 for {self._address}: {exc}") from exc

    def _forget_client(self) -> None:
        """Its connections and credentials are of now: a process that is kept as a snapshot must not keep them."""
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.close()

    def _explain(self, error: Exception) -> tuple[str, bool]:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            missing = [e.size for e in self._manifest_files() if not self._store.has(e.sha256, e.size)]
            return f"the disk is full: {sum(missing)} bytes are needed, {self._store.free_bytes()} are free", False
        return explain(error)

    def _manifest_files(self) -> Collection[FileEntry]:
        manifest: Manifest | None = getattr(self, "_manifest", None)
        return manifest.files.values() if manifest is not None else ()


def upload(
    address: S3Address, contents: Mapping[str, bytes], written: Callable[[str, int], None] | None = None
) -> bool:
    """Write a bundle: its files first, the manifest last. False when the very same bundle is there already.

    ``written`` is told of each file that is there, with its bytes.

    Raises:
        ConfigurationError: it cannot be written, or another bundle is there.
    """
    manifest = contents[MANIFEST_NAME]
    try:
        client = _client(connect=5.0, read=60.0, workers=1, attempts=4)
        present = _present_manifest(client, address)
        if present is None:
            for name in sorted(contents, key=lambda n: (n == MANIFEST_NAME, n)):
                condition = {"IfNoneMatch": "*"} if name == MANIFEST_NAME else {}
                client.put_object(
                    Bucket=address.bucket,
                    Key=address.key(name),
                    Body=contents[name],
                    ChecksumAlgorithm="SHA256",
                    **condition,
                )
                if written is not None:
                    written(name, len(contents[name]))
            return True
    except Exception as exc:
        raise ConfigurationError(f"cannot write {address}: {explain(exc)[0]}") from exc
    if present != manifest:
        raise ConfigurationError(
            f"{address} holds another bundle, which functions may be running with; write this one to a new prefix"
        )
    return False


def _present_manifest(client: Any, address: S3Address) -> bytes | None:
    try:
        answer = client.get_object(Bucket=address.bucket, Key=address.key(MANIFEST_NAME))
    except Exception as exc:
        # Who may write and not list is told 403 of a missing manifest; writing shows what is true.
        if status_of(exc)[1] in ("NoSuchKey", "404", "AccessDenied"):
            return None
        raise
    data: bytes = answer["Body"].read(_MAX_MANIFEST)
    return data


def _unavailable(reason: str) -> Unavailable:
    return Unavailable("The model is not loaded: its files cannot be read now. Try again.", reason=reason)


def _client(connect: float, read: float, workers: int, attempts: int = 1) -> Any:
    # Late: boto3 is slow to load, and only a model in S3 needs it.
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=connect,
        read_timeout=read,
        max_pool_connections=workers,
        # A fetch counts its tries itself: a connection can also break after the answer began.
        retries={"total_max_attempts": attempts, "mode": "standard"},
        response_checksum_validation="when_required",  # every file is checked against the manifest
        request_checksum_calculation="when_required",
    )
    # A session of its own: the shared one would keep credentials alive after the load.
    return boto3.session.Session().client("s3", config=config)


def _run(jobs: Sequence[_Job], workers: int, seconds: float, source: str) -> None:
    """Run jobs in a few threads until all are done, one fails, or ``seconds`` are over.

    The threads are daemons: one that hangs in a connection that trickles is
    left behind. What it writes appears only when it is whole, so it does no harm.

    Raises:
        Unavailable: the first failure.
    """
    waiting, stop = deque(jobs), threading.Event()
    results = queue.SimpleQueue[BaseException | None]()

    def work() -> None:
        while not stop.is_set():
            try:
                job = waiting.popleft()
            except IndexError:
                return
            try:
                job(stop)
            except BaseException as exc:
                results.put(exc)
            else:
                results.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(jobs)))]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            failure = results.get(timeout=max(deadline - time.monotonic(), 0.001))
            if failure is not None:
                raise failure
    except queue.Empty:
        raise _unavailable(f"cannot fetch {source}: S3 is too slow, the time for it is up") from None
    finally:
        stop.set()
        patience = time.monotonic() + _GRACE
        for thread in threads:
            thread.join(max(patience - time.monotonic(), 0))

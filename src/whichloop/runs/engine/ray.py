"""Workers that are actors of a Ray cluster, either a running one or one that is started on this machine for the run.

An actor runs trials on the event loop of a thread of its own, so that a trial which keeps that busy holds up neither what the actor
says nor the news that it lives. Two calls, `put` and `take`, carry the messages of `messages.py` as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from whichloop._extras import missing
from whichloop.protocol.values import one_line

from .messages import Links, WorkerError, WorkerLost
from .worker import WorkerLoop

POLL_S = 0.5
"""Maximum number of seconds to wait for a message of an actor before asking again."""
REACH_LIMIT_S = 5.0
MAX_ROOT_CHARS = 20
"""Maximum length of the path of a folder for Ray's files: paths of sockets may have 107 characters, most of which Ray uses."""
OBJECTS_BYTES = 100 << 20
"""Size of Ray's store of large objects on this machine, which trials hardly use."""
CALLS = 4
"""Maximum number of calls to one actor at once: `put`, `take`, and calls that were given up but still run."""
MAX_REASON_CHARS = 300
"""Maximum length of Ray's message when it does not start; the rest is for Ray's developers."""
JUST_MADE_S = 300.0
"""Seconds for which a folder without a lock may be a new one that has yet to get it."""
PREFIX = "whichloop-ray-"

QUIET: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "(?s).*",  # it would print among a command's results that an actor died; the pool says so
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # here: a node at 127.0.0.1 stays there, and listens to nobody else
}
"""Settings of Ray itself; the user's environment overrides them."""
IMPATIENT: Mapping[str, str] = {
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_py_gcs_connect_timeout_s": "8",
    "RAY_gcs_server_request_timeout_seconds": "20",
}
"""Settings without which Ray looks for an absent cluster for ten minutes."""


@contextlib.contextmanager
def cluster_links(address: str | None, workers: int | None) -> Iterator[Links]:
    """Yield links to workers of the cluster at `address`, or of a new one here if None. `workers`: one per processor if None.

    Raises WorkerError where Ray is not installed, or no such cluster is found.
    """
    with _started(workers or os.cpu_count() or 1) if address is None else _reached(address):
        yield Links(partial(ActorLink, _actors()), workers or max(1, int(_ray().cluster_resources().get("CPU", 1))))


@contextlib.contextmanager
def _started(processors: int) -> Iterator[None]:
    """Run a cluster of this machine alone, which nobody else can reach and which leaves nothing behind."""
    credentials = {} if "RAY_AUTH_MODE" in os.environ else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = _ray_as({**QUIET, **credentials})  # without a token of its own Ray would leave one in the user's home
    with ray_folder(_root()) as folder:
        try:
            _init(
                ray,
                "local",
                num_cpus=processors,
                include_dashboard=False,
                object_store_memory=OBJECTS_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
            )
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _reached(address: str) -> Iterator[None]:
    """Connect to a cluster of which this machine is a node."""
    where = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if "://" in where:
        raise WorkerError(f"{where}: Ray's client is not supported; run this on a machine of the cluster, with -s address=auto")
    if where != "auto":
        _knock(where)
    ray = _ray_as({**QUIET, **IMPATIENT})
    try:
        _init(ray, where)
        yield
    finally:
        ray.shutdown()


def _ray() -> Any:
    """Return the module `ray`, which is an extra and slow to import."""
    return importlib.import_module("ray")


def _ray_as(settings: Mapping[str, str]) -> Any:
    if "ray" not in sys.modules:  # it reads them when it is imported
        for name, value in settings.items():
            os.environ.setdefault(name, value)
    try:
        ray = _ray()
    except ImportError:
        raise WorkerError(str(missing("the engine ray", "ray"))) from None
    if ray.is_initialized():
        raise WorkerError("this process uses Ray already; call ray.shutdown() first")
    return ray


def _init(ray: Any, address: str, **settings: Any) -> None:
    try:
        with _as_before(signal.SIGTERM):
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        what = "Ray does not start on this machine" if address == "local" else f"no Ray cluster at {address} can be used"
        why = _line(error)[:MAX_REASON_CHARS].rstrip(".")
        hint = "; where it asks for a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN" if "Failed to connect" in why else ""
        raise WorkerError(f"{what}: {why}{hint}") from None


def _knock(address: str) -> None:
    """Raise WorkerError if nobody listens at an address: Ray itself would go on trying."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise WorkerError(f"{address!r} is not the address of a Ray cluster: auto, or HOST:PORT as `ray start --head` prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_LIMIT_S).close()
    except (OSError, OverflowError) as error:
        raise WorkerError(f"no Ray cluster at {address}: {_line(error)}") from None


def _actors() -> Any:
    # Not restarted by Ray: a pool makes a new worker itself, and knows what the lost one had under way.
    once = {"max_restarts": 0, "max_task_retries": 0}
    return _ray().remote(num_cpus=1, scheduling_strategy="SPREAD", max_concurrency=CALLS, **once)(RemoteWorker)


@contextlib.contextmanager
def _as_before(number: signal.Signals) -> Iterator[None]:
    """Restore the handler of a signal at the end: Ray would install its own for SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(number)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def ray_folder(root: Path) -> Iterator[Path]:
    """Make a folder for Ray's logs and sockets in `root`, and remove those of runs that were killed."""
    _sweep(root)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _root() -> Path:
    """Return the folder for temporary files, or `/tmp`, as Ray itself does, if its path is too long."""
    root = tempfile.gettempdir()
    return Path(root if len(root) <= MAX_ROOT_CHARS else "/tmp")  # noqa: S108


def _sweep(root: Path) -> None:
    """Remove the folders whose process is gone, for its lock went with it, and what Ray wrote into one after that."""
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if not (folder / "lock").exists() and time.time() - folder.stat().st_mtime > JUST_MADE_S:
                shutil.rmtree(folder, ignore_errors=True)
    for file in root.glob(f"{PREFIX}*/lock"):
        with contextlib.suppress(OSError), file.open("r+") as lock:  # held, somebody else's, or removed in this moment
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(file.parent, ignore_errors=True)


class ActorLink:
    """A link to an actor, which runs wherever the cluster has a free processor."""

    def __init__(self, actors: Any, number: int) -> None:
        self.name = f"worker {number}"
        self._actors = actors
        self._actor: Any = None
        self._unsent: list[bytes] = []
        self._posting: asyncio.Task[None] | None = None
        self._inbox: deque[bytes] = deque()
        self._answers: set[asyncio.Future[Any]] = set()
        self._lost = ""

    async def start(self, setup: bytes) -> None:
        """Start the actor, and wait until the cluster has a processor for it."""
        self._actor = self._actors.remote()
        place, problem = await self._ask("start", setup, os.getcwd())
        self.name = f"{self.name} on {place}"
        if problem:
            raise WorkerError(problem)

    async def send(self, message: bytes) -> None:
        self._check()
        self._unsent.append(message)
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post())

    async def _post(self) -> None:
        """Send queued messages in order, one call at a time, each with all messages that came in the meantime."""
        while self._unsent:
            messages, self._unsent = self._unsent, []
            with contextlib.suppress(WorkerLost):  # which `receive` tells
                await self._ask("put", messages)

    async def receive(self) -> bytes:
        while not self._inbox:
            self._inbox.extend(await self._ask("take", POLL_S))
        return self._inbox.popleft()

    async def stop(self, *, kill: bool) -> None:
        """Kill the actor at once in either case: after its last message it has nothing left to do."""
        self._lost = self._lost or "it was ended"
        for answer in self._answers:  # nothing may come back from a node that has frozen
            answer.cancel()
        if self._actor is not None:
            _ray().kill(self._actor, no_restart=True)

    def _check(self) -> None:
        if self._lost:
            raise WorkerLost(self._lost)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the actor's answer. Raises WorkerLost, also if the link is stopped in the meantime."""
        self._check()
        answer = asyncio.wrap_future(getattr(self._actor, method).remote(*arguments).future())
        self._answers.add(answer)
        try:
            return await answer
        except _ray().exceptions.RayError as error:
            if "in its creation task" in str(error):  # which does nothing but import what is here
                why = str(error).strip().splitlines()[-1]
                raise WorkerError(f"whichloop cannot be imported on its node: {why}") from None
            self._lost = self._lost or _how_it_was_lost(error)
            raise WorkerLost(self._lost) from None
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is not None and not waiting.cancelling():
                self._check()
            raise
        finally:
            self._answers.discard(answer)


def _how_it_was_lost(error: Exception) -> str:
    """Return in words how a worker was lost."""
    exceptions, text = _ray().exceptions, _line(error)
    if isinstance(error, exceptions.ActorUnavailableError):
        return "it does not answer"
    if isinstance(error, exceptions.RayActorError):
        return "its node died" if "node has died" in text else "its process died"
    return _line(error.cause) if isinstance(error, exceptions.RayTaskError) else f"{type(error).__name__}: {text}"


def _line(error: object) -> str:
    return one_line(str(error))


class RemoteWorker:
    """An actor: the other end of an ActorLink. Ray calls it from threads of its own."""

    def __init__(self) -> None:
        self._event_loop = asyncio.new_event_loop()
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._news = threading.Condition()
        self._outbox: list[bytes] = []
        self._end_reason = ""
        """Why no message will follow; empty while some may."""

    def start(self, setup: bytes, folder: str) -> list[str]:
        """Return the node's address, and an error of the setup, if there is one. Paths are relative to `folder`, if it exists."""
        place: str = _ray().util.get_node_ip_address()
        with contextlib.suppress(OSError):
            os.chdir(folder)
        sys.path += [entry for entry in json.loads(setup)["path"] if entry not in sys.path]
        logging.getLogger("whichloop.loops").setLevel(logging.ERROR)  # the trace of a trial holds what its loop warns of
        try:
            worker = WorkerLoop(setup)
        except WorkerError as error:
            return [place, str(error)]
        trials = worker.run(self._incoming(), self._say)
        threading.Thread(target=self._work, args=(trials,), name="trials", daemon=True).start()
        return [place, ""]

    def put(self, messages: list[bytes]) -> None:
        for message in messages:
            self._event_loop.call_soon_threadsafe(self._inbox.put_nowait, message)

    def take(self, limit_s: float) -> list[bytes]:
        """Return the messages since the last call, after waiting up to `limit_s`. Raises RuntimeError after the last one."""
        with self._news:
            self._news.wait_for(lambda: self._outbox or self._end_reason, limit_s)
            messages, self._outbox = self._outbox, []
            if not messages and self._end_reason:
                raise RuntimeError(self._end_reason)
            return messages

    async def _incoming(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._inbox.get()

    def _say(self, message: bytes) -> None:
        with self._news:
            self._outbox.append(message)
            self._news.notify()

    def _work(self, trials: Awaitable[None]) -> None:
        end_reason = "it has ended"
        try:
            with asyncio.Runner(loop_factory=lambda: self._event_loop) as runner:
                runner.run(_awaited(trials))
        except BaseException as error:
            end_reason = f"{type(error).__name__}: {_line(error)}"
            raise  # into Ray's log of this process
        finally:
            with self._news:
                self._end_reason = end_reason
                self._news.notify()


async def _awaited(working: Awaitable[None]) -> None:
    await working

"""Workers that are actors of a Ray cluster, either a running one or one that is started on this machine for the run.

An actor runs trials on a thread of its own, so that a trial which keeps that busy holds up no call. `put` and `take` carry the
messages of `messages.py` as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import queue
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from whichloop._extras import missing
from whichloop.protocol.threads import in_thread
from whichloop.protocol.values import cap, one_line
from whichloop.runs.store.files import CutShort
from whichloop.runs.trial.watchdog import hangs_at

from .messages import Links, WorkerError, WorkerLost
from .worker import WorkerLoop
from .worker_process import quiet_loops

CHECK_EVERY_S = 2.0
ANSWER_LIMIT_S = 10.0
"""Seconds in which a cluster, or an actor that does not run trials, has to answer."""
SETTINGS: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "(?s).*",  # it would print among a command's results that an actor died; the pool says so
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # here: a node at 127.0.0.1 stays there, and listens to nobody else
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # without this and the next two, Ray looks for an absent cluster for ten minutes
    "RAY_py_gcs_connect_timeout_s": "8",
    "RAY_gcs_server_request_timeout_seconds": "20",
}
"""Settings of Ray itself; the user's environment overrides them."""
MAX_REASON_CHARS = 300
"""Maximum length of Ray's message when it does not start; the rest is for Ray's developers."""


@contextlib.contextmanager
def cluster_links(address: str | None, workers: int | None) -> Iterator[Links]:
    """Yield links to workers of the cluster at `address`, or of a new one here if None. `workers`: one per processor if None.

    Raises WorkerError where Ray is not installed, or no such cluster is found.
    """
    where = address or "local"
    if where not in ("local", "auto"):
        host, _, port = where.rpartition(":")
        try:  # Ray itself would go on trying, and print that it does
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_LIMIT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            raise WorkerError(f"no Ray cluster at {where}: {one_line(str(error))}") from None
    with contextlib.ExitStack() as stack:
        settings, started = dict(SETTINGS), dict[str, Any]()
        if where == "local":  # a cluster that nobody else can reach and that leaves nothing behind
            if "RAY_AUTH_MODE" not in os.environ:  # without a token of its own Ray would leave one in the user's home
                settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            folder = tempfile.TemporaryDirectory(prefix="whichloop-ray-", dir="/tmp", ignore_cleanup_errors=True)
            started = {"num_cpus": workers or os.cpu_count() or 1, "include_dashboard": False, "object_store_memory": 100 << 20}
            started |= {"_node_ip_address": "127.0.0.1", "_temp_dir": stack.enter_context(folder)}
        for name, value in settings.items():
            os.environ.setdefault(name, value)  # read when Ray is imported
        sigterm = signal.getsignal(signal.SIGTERM)
        try:
            ray = importlib.import_module("ray")
            stack.callback(_bounded, ray.shutdown)
            ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, **started)
        except ImportError:
            raise WorkerError(str(missing("the engine ray", "ray"))) from None
        except (OSError, RuntimeError, ValueError) as error:  # a RayError is a RuntimeError or a ValueError, too
            what = "Ray does not start on this machine" if where == "local" else f"no Ray cluster at {where} can be used"
            raise WorkerError(f"{what}: {cap(one_line(str(error)), MAX_REASON_CHARS)}") from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, sigterm)  # Ray installs its own
        # Not restarted by Ray: a pool makes a new worker itself, and knows what the lost one had under way.
        kind = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_concurrency": 4, "max_restarts": 0, "max_task_retries": 0}
        number = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield Links(partial(ActorLink, ray, ray.remote(**kind)(RemoteWorker)), number, _looking(ray))


def _bounded(call: Any) -> None:
    """Call Ray, but do not wait for what a cluster that is gone would have to answer."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(ANSWER_LIMIT_S)


def _looking(ray: Any) -> Callable[[], Awaitable[None]]:
    """Return what raises CutShort if the cluster does not answer, or has lost this machine; Ray itself would wait, or end us."""
    own_node, next_at = ray.get_runtime_context().get_node_id(), 0.0

    async def check() -> None:
        nonlocal next_at
        if time.monotonic() < next_at:
            return
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                nodes: Any = await in_thread(ray.nodes)
            is_there = any(node["Alive"] and node["NodeID"] == own_node for node in nodes)
        except Exception:  # TimeoutError, or whatever Ray says of it
            is_there = False
        if not is_there:
            raise CutShort("the Ray cluster is lost: its head, or its node on this machine, has died")
        next_at = time.monotonic() + CHECK_EVERY_S

    return check


class ActorLink:
    """A link to an actor, which runs wherever the cluster has a free processor."""

    def __init__(self, ray: Any, actors: Any, number: int) -> None:
        self.name = f"worker {number}"
        self._ray, self._actors = ray, actors
        self._actor: Any = None
        self._unsent: list[bytes] = []
        self._posting: asyncio.Task[None] | None = None
        self._inbox: deque[bytes] = deque()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self, setup: bytes) -> None:
        self._actor = self._actors.remote()
        place, problem = await self._ask("start", setup, os.getcwd())
        self.name = f"{self.name} on {place}"
        if problem:
            raise WorkerError(problem)

    def send(self, message: bytes) -> None:
        self._unsent.append(message)
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post())

    async def _post(self) -> None:
        """Send queued messages in order, one call at a time, each with all messages that came in the meantime."""
        with contextlib.suppress(WorkerLost):  # which `receive` tells
            while self._unsent:
                messages, self._unsent = self._unsent, []
                await self._ask("put", messages)

    async def receive(self) -> bytes:
        while not self._inbox:
            self._inbox.extend(await self._ask("take"))
        return self._inbox.popleft()

    async def hangs_at(self) -> str | None:
        with contextlib.suppress(WorkerLost, TimeoutError):
            async with asyncio.timeout(ANSWER_LIMIT_S):
                place: str | None = await self._ask("hangs_at")
                return place
        return None

    async def stop(self, *, kill: bool) -> None:
        """Kill the actor at once in either case: after its last message it has nothing left to do."""
        self._end("it was ended")  # nothing may come back from a node that has frozen
        if self._actor is not None:
            with contextlib.suppress(Exception):  # of a cluster that is gone
                async with asyncio.timeout(ANSWER_LIMIT_S):
                    await in_thread(self._ray.kill, self._actor)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the actor's answer. Raises WorkerLost, also if the link is stopped in the meantime."""
        answer = asyncio.wrap_future(getattr(self._actor, method).remote(*arguments).future())
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at, so that nothing is logged
        await asyncio.wait({answer, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if answer.done():
                return answer.result()
        except self._ray.exceptions.RayError as error:
            text = str(error).strip()
            if "in its creation task" in text:  # which does nothing but import what is here
                raise WorkerError(f"whichloop cannot be imported on its node: {text.splitlines()[-1]}") from None
            is_dead = isinstance(error, self._ray.exceptions.RayActorError)
            self._end("its process or its node died" if is_dead else one_line(str(getattr(error, "cause", error))))
        answer.cancel()
        raise WorkerLost(self._ended.result())

    def _end(self, why: str) -> None:
        if not self._ended.done():
            self._ended.set_result(why)


async def _incoming(inbox: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await inbox.get()


class RemoteWorker:
    """An actor: the other end of an ActorLink. Ray calls it from threads of its own, as none of its methods is async."""

    def __init__(self) -> None:
        self._event_loop = asyncio.new_event_loop()
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._hang_file = tempfile.TemporaryFile()  # noqa: SIM115

    def start(self, setup: bytes, folder: str) -> list[str]:
        """Return the node's address, and an error of the setup, if there is one. Paths are relative to `folder`, if it exists."""
        place: str = importlib.import_module("ray").util.get_node_ip_address()
        with contextlib.suppress(OSError):
            os.chdir(folder)
        sys.path += [entry for entry in json.loads(setup)["path"] if entry not in sys.path]
        quiet_loops()
        try:
            worker = WorkerLoop(setup, self._hang_file.fileno(), ends_itself=False)
        except WorkerError as error:
            return [place, str(error)]
        work = worker.run(_incoming(self._inbox), self._outbox.put)
        threading.Thread(target=self._work, args=(work,), name="trials", daemon=True).start()
        return [place, ""]

    def put(self, messages: list[bytes]) -> None:
        for message in messages:
            self._event_loop.call_soon_threadsafe(self._inbox.put_nowait, message)

    def take(self) -> list[bytes]:
        """Return the messages since the last call, at least one. Raises RuntimeError after the last one."""
        taken = [self._outbox.get()]
        while not self._outbox.empty():
            taken.append(self._outbox.get())
        if messages := [message for message in taken if message is not None]:
            return messages
        raise RuntimeError("its event loop has ended")

    def hangs_at(self) -> str | None:
        return hangs_at(self._hang_file.fileno())

    def _work(self, trials: Coroutine[Any, Any, None]) -> None:
        try:
            self._event_loop.run_until_complete(trials)
        finally:
            self._outbox.put(None)
            self._outbox.put(None)

"""A worker that is a process of this machine: `python -m whichloop.runs.engine.worker_process SOCKET FILE`.

It talks through a socket, and writes to the file where it hangs; it is given their descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from whichloop.protocol.redact import redact
from whichloop.runs.trial.watchdog import told_of_exit

from .messages import START_LIMIT_S, WorkerError, framed

if TYPE_CHECKING:
    from .worker import WorkerLoop


def main() -> None:
    """Serve the process that started this one until it says no more, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that the user started; it ends this one
    if sys.platform == "linux":  # one that hangs ends with its parent, too
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    channel, hang_file = map(int, sys.argv[1:3])
    os.set_inheritable(channel, False)
    os.set_inheritable(hang_file, False)
    faulthandler.dump_traceback_later(START_LIMIT_S, exit=True, file=hang_file)  # until the event loop beats
    with socket.socket(fileno=channel) as to_parent:
        os.register_at_fork(after_in_child=to_parent.close)  # else the parent would not notice that this process has died
        size = int.from_bytes(to_parent.recv(4, socket.MSG_WAITALL), "big")
        if not (setup := to_parent.recv(size, socket.MSG_WAITALL)):
            return  # the parent is gone
        sys.path[:] = json.loads(setup)["path"]
        quiet_loops()
        from .worker import WorkerLoop  # noqa: PLC0415  # once the path is set

        try:
            worker = WorkerLoop(setup, hang_file)
        except WorkerError as error:
            to_parent.sendall(framed(json.dumps({"refused": str(error)}).encode()))
            return
        try:
            with contextlib.suppress(BrokenPipeError):  # the parent is gone, which the event loop finds, too
                to_parent.sendall(framed(b"{}"))
            with told_of_exit():  # a trial that calls os._exit has crashed, and its neighbours go on
                asyncio.run(_serve(worker, to_parent))
        except (Exception, KeyboardInterrupt) as error:
            # Code of a trial may have changed what all code shares; another worker takes over.
            sys.stderr.write(redact(f"a worker process cannot go on: {error!a}\n"))
            sys.exit(1)


def quiet_loops() -> None:
    """Let loops and suites warn of nothing here: traces hold what a loop warns of, and the run's own process warned of the rest."""
    for name in ("whichloop.loops", "whichloop.datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)


async def _serve(worker: WorkerLoop, to_parent: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=to_parent)
    await worker.run(_incoming(reader), lambda message: writer.write(framed(message)))
    await writer.drain()
    writer.close()


async def _incoming(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield each message; end this process, and those that it started, as soon as its parent is gone."""
    try:
        while True:
            yield await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

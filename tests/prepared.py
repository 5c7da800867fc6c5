"""The command as a process that has imported the package already: most of what a short command costs is a second of imports.

One process imports it and waits. A command is its fork, and a child of the process that asked: a `subprocess.Popen` in every way.
Where the hash seed or the start of Python itself is the subject, a test starts a process from nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: orphans below this process become its children."""
_LARGEST_BYTES = 1 << 16
"""Of a request."""
_LATER = ("scipy.special", "loopbench.loops.bare", "loopbench.datasets.arithmetic")
"""What most commands of the tests import only once they need it."""


class Command(subprocess.Popen[str]):
    """`loopbench` with these arguments, in a folder, with nothing else in its environment."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], **pipes: Any) -> None:
        taken = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **pipes}
        super().__init__(list(arguments), cwd=folder, env=environment, **taken)

    def _execute_child(self, *parts: Any) -> None:
        """Have the prepared process fork, in the place of this one: Popen's own way to start a child."""
        request = {"arguments": parts[0], "folder": os.fspath(parts[5]), "environment": dict(parts[6])}
        pipes = parts[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        with _adopting():
            prepared = _prepared()
            handles = [number if handle == -1 else handle for number, handle in enumerate((stdin, stdout, stderr))]
            socket.send_fds(prepared, [json.dumps(request).encode()], handles)
            self.pid = int(prepared.recv(32))
            assert prepared.recv(32) == b"orphaned"
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Within the block, orphans become children of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(_SUBREAPER, 0, 0, 0, 0)


@functools.cache
def _prepared() -> socket.socket:
    """Start the process that forks, which ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {"PATH": os.defpath, "PYTHONHASHSEED": "random", "OPENBLAS_NUM_THREADS": "1"}
    with its:
        process = subprocess.Popen([sys.executable, __file__, str(its.fileno())], env=environment, pass_fds=[its.fileno()])
    atexit.register(process.wait, 60)
    atexit.register(ours.close)
    assert ours.recv(32) == b"ready"
    return ours


def _import_all() -> None:
    """Import what commands import, and nothing that starts a thread."""
    cli = importlib.import_module("loopbench.cli")
    for module in pkgutil.iter_modules(cli.__path__, "loopbench.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)


def _fork_on_request(asking: socket.socket) -> dict[str, Any]:
    """Fork as often as it is asked for; return the request in each fork, and end at the end of who asks."""
    while True:
        request, handles, _, _ = socket.recv_fds(asking, _LARGEST_BYTES, 3)
        if not request:
            sys.exit()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                asking.send(str(child).encode())
                os._exit(0)
            for number, handle in enumerate(handles):
                os.dup2(handle, number)
        else:
            os.waitpid(between, 0)
        for handle in handles:
            os.close(handle)
        if not between:
            asking.close()
            whole: dict[str, Any] = json.loads(request)
            return whole
        asking.send(b"orphaned")


def main() -> None:
    asking = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]  # the folder of this file
    _import_all()
    gc.collect()
    gc.freeze()
    asking.send(b"ready")
    request = _fork_on_request(asking)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what began the tests in the background may have it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    given = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [request["folder"], *filter(None, given.split(os.pathsep))]
    sys.argv = ["", *request["arguments"]]
    runpy.run_module("loopbench", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

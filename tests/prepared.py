"""Commands as processes that have imported the package already: most of what a short one costs is its imports.

One process imports it and waits. Another one is its fork, and a child of the process that asked: a `subprocess.Popen` in every way.
A command has such a process of its own, for its workers.
Where the hash seed or the start of Python itself is the subject, a test starts a process from nothing.
"""

from __future__ import annotations

import asyncio.unix_events
import atexit
import contextlib
import ctypes
import fcntl
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
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

PYTHON = sys.executable
WORKER = "whichloop.runs.engine.worker_process"
_LIBC = ctypes.CDLL(None)
_SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: orphans below this process become its children."""
_LARGEST_BYTES = 1 << 17
"""Of a request."""
_MOST_HANDLES = 16
_LATER = (
    *(f"whichloop.loops.{design}" for design in ("bare", "finish", "phased", "react_extract", "stateless")),
    "whichloop.checks.suite.check",
    "whichloop.datasets.arithmetic",
    "whichloop.metrics.scorers",
    "whichloop.runs.engine.worker",
    "numpy.ma",
    "numpy.random",
)
"""What most commands of the tests, and workers, import only once they need it."""


class Prepared(subprocess.Popen[Any]):
    """`python -m MODULE …`, as a fork; arguments as of `Popen`."""

    def _execute_child(self, *parts: Any) -> None:
        """Have the prepared process fork, in the place of this one: Popen's own way to start a child."""
        (_, *options, module), pass_fds, pipes = _before_arguments(parts[0]), parts[4], parts[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        request = {
            "module": module,
            "arguments": parts[0][parts[0].index(module) + 1 :],
            "path": [] if "-P" in options else [os.fspath(parts[5] or Path.cwd())],
            "folder": os.fspath(parts[5] or Path.cwd()),
            "environment": dict(os.environ if parts[6] is None else parts[6]),
            "handles": [0, 1, 2, *pass_fds],
            "session": parts[21],
            "parent": os.getpid(),
        }
        pipes_of_child = [number if handle == -1 else handle for number, handle in enumerate((stdin, stdout, stderr))]
        with _ASKING, _adopting():
            prepared = next(iter(_HELPERS), None) or _prepared()
            socket.send_fds(prepared, [json.dumps(request).encode()], [*pipes_of_child, *pass_fds])
            told = {prepared.recv(32), prepared.recv(32)} - {b"orphaned"}  # in either order
            (self.pid,) = map(int, told)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


_ASKING = threading.Lock()
_HELPERS: dict[socket.socket, tuple[int, int]] = {}
"""In a command that is a fork: where it asks for a worker → the process that answers, and the command's own."""
_CODES: list[int] = []
"""With what a fork ends, as soon as its module has ended."""
_LEAVE, _PATH = os._exit, [*sys.path[1:]]
"""As they are before a command changes them; the first entry is the folder of this file."""


def _before_arguments(command: Sequence[str]) -> Sequence[str]:
    """The interpreter, its options, and the module after `-m`."""
    return [word for word in command[: command.index("-m") + 2] if word != "-m"]


def start_command(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, module: str = "whichloop", **pipes: Any
) -> subprocess.Popen[str]:
    """Start `whichloop`, or another module, with these arguments, in a folder, with nothing else in its environment."""
    taken = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **pipes}
    return Prepared([sys.executable, "-m", module, *arguments], cwd=folder, env=environment, **taken)


def ended(folder: Path, environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Return how `python -m MODULE …` or `python FILE.py …` ended in a folder, and what it said."""
    module, *arguments = words[1:] if words[0] == "-m" else (Path(words[0]).stem, *words[1:])
    with start_command(arguments, folder, environment, module=module) as process:
        said, errors = process.communicate(timeout=240)
    return subprocess.CompletedProcess([*words], process.returncode, str(said), str(errors))


def said_by(folder: Path, environment: Mapping[str, str], *words: str, quiet: bool = False) -> str:
    """Return what such a process prints; its exit code must be 0. `quiet`: it may write nothing to standard error."""
    done = ended(folder, environment, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (quiet and done.stderr), done.stderr
    return done.stdout


def ran_in_fork(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as a module of a folder, with no environment, and return how its process ended and what it said."""
    (folder / "code_of_a_test.py").write_text(code, encoding="utf-8")
    return ended(folder, {}, "code_of_a_test.py", *arguments)


def start_for_asyncio(command: Sequence[str], **more: Any) -> subprocess.Popen[Any]:
    """Start a process in the place of `subprocess.Popen`: a worker of a run as a fork, which spares it a second of imports.

    A process that a command has split off could not adopt what the command's helper forks.
    """
    is_worker = tuple(command[:4]) == (PYTHON, "-P", "-m", WORKER)
    can_adopt = all(owner == os.getpid() for _, owner in _HELPERS.values())
    return (Prepared if is_worker and can_adopt else subprocess.Popen)(command, **more)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Within the block, orphans become children of this process."""
    assert _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        _LIBC.prctl(_SUBREAPER, 0, 0, 0, 0)


@functools.cache
def _prepared() -> socket.socket:
    """Start the process that forks, which ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {"PATH": os.defpath, "PYTHONHASHSEED": "random", "OPENBLAS_NUM_THREADS": "1"}
    if "PYTHONPATH" in os.environ:  # as where the tests of a copy run, which import the copy's package
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    with its:
        process = subprocess.Popen([sys.executable, __file__, str(its.fileno())], env=environment, pass_fds=[its.fileno()])
    atexit.register(process.wait, 60)
    atexit.register(ours.close)
    assert ours.recv(32) == b"ready"
    return ours


def _import_all() -> None:
    """Import what commands import, and nothing that starts a thread."""
    cli = importlib.import_module("whichloop.cli")
    for module in pkgutil.iter_modules(cli.__path__, "whichloop.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    make_what_most_make()


def make_what_most_make() -> None:
    """Make what most commands make once they need it, and what is the same in all: validators of settings, templates of pages."""
    models = deque(importlib.import_module("pydantic").BaseModel.__subclasses__())
    while models:
        model = models.popleft()
        models.extend(model.__subclasses__())
        if model.__module__.startswith("whichloop."):
            model.model_rebuild()
    environment = importlib.import_module("whichloop.reports.html.page")._environment()
    for template in environment.list_templates(extensions=("jinja",)):
        environment.get_template(template)


def _fork_on_request(asking: socket.socket) -> dict[str, Any]:
    """Fork as often as it is asked for; return the request in each fork, and end at the end of who asks."""
    while True:
        data, handles, _, _ = socket.recv_fds(asking, _LARGEST_BYTES, _MOST_HANDLES)
        if not data:
            sys.exit()
        between = os.fork()
        if not between:
            if os.fork():
                os._exit(0)
            request: dict[str, Any] = json.loads(data)
            if request["session"]:
                os.setsid()  # before the one who asks can signal to the session
            asking.send(str(os.getpid()).encode())
            asking.close()
            _place(handles, request["handles"])
            return request
        for handle in handles:
            os.close(handle)
        os.waitpid(between, 0)
        asking.send(b"orphaned")


def _have_a_helper() -> None:
    """Start a process that forks workers for this one. It sees none of our files, and ends with us.

    It is a child of ours, so that we may adopt its orphans, and is there before any code of the user's own.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    owner = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if pid := os.fork():
        its.close()
        _HELPERS[ours] = (pid, owner)
        return
    with _as_python_ends():
        ours.close()
        os.setpgid(0, 0)  # a Ctrl-C is the command's; a session of its own is what tells a worker
        vars(os)["_exit"] = _LEAVE
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number != its.fileno():
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(number)
        _run(_fork_on_request(its))


@contextlib.contextmanager
def _as_python_ends() -> Iterator[NoReturn]:
    """Run the block and end the process as Python would, without what called us."""
    code: Any = 1
    try:
        yield  # type: ignore[misc]  # what comes behind the block is never reached
        code = 0
    except SystemExit as left:
        code = left.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _LEAVE(code if isinstance(code, int) else 1)


def _start_workers_by_helpers() -> None:
    """Have this command's workers be forks."""
    vars(asyncio.unix_events)["subprocess"] = SimpleNamespace(**vars(subprocess) | {"Popen": start_for_asyncio})
    _have_a_helper()


def _place(handles: Sequence[int], numbers: Sequence[int]) -> None:
    """Give file descriptors these numbers."""
    beyond = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for handle in handles]
    for handle in handles:
        os.close(handle)
    for handle, number in zip(beyond, numbers, strict=True):
        os.dup2(handle, number)
        os.close(handle)


def _run(request: dict[str, Any]) -> None:
    """Run a module as Python would that was started for it."""
    while os.getppid() != request["parent"]:  # not an orphan yet
        time.sleep(0.001)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what began the tests in the background may have it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    given = os.environ.get("PYTHONPATH", "")
    sys.path[:] = [*request["path"], *filter(None, given.split(os.pathsep)), *_PATH]
    sys.argv = ["", *request["arguments"]]
    sys.modules.pop(WORKER, None)  # runpy would warn of it
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        _CODES.append(0)
    except SystemExit as left:
        _CODES.append(left.code if isinstance(left.code, int) else left.code is not None)
        raise


def _leave_at_last() -> None:
    """Leave once Python has done what it does at its end, but for taking its modules apart: that takes longer than most commands.

    What would show only then is for test_core_only.py, whose commands end as Python does.
    """
    if _CODES:
        try:
            for stream in filter(None, (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
                stream.flush()
        except (OSError, ValueError):
            return  # Python tells it in a way of its own
        _LEAVE(_CODES[-1])


def main() -> None:
    atexit.register(_leave_at_last)  # before nearly all others: the last of them to be called
    asking = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]  # the folder of this file
    _import_all()
    gc.collect()
    gc.freeze()
    asking.send(b"ready")
    request = _fork_on_request(asking)
    if request["module"] != WORKER:
        _start_workers_by_helpers()
    _run(request)


if __name__ == "__main__":
    main()

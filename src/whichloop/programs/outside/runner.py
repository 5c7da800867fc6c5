"""Runs a solver for one trial after the other, or for many at once, in the interpreter of a framework or of a user's agent.

    python runner.py FILE.py:FUNCTION | MODULE:FUNCTION | SCRIPT | ""

Standard library only, and nothing of whichloop. It reads one JSON object a line, and writes one:

    in   {"id", "question", "tools": [{"name", "description", "parameters"}], "url", "model", "max_steps", "options"}
         {"cancel": id}
    out  {"ready": {"python", "packages"}}, once; or {"failed": TEXT}, and it ends
         {"id", "answer"} | {"id", "stop": "max_steps"[, "answer"]} | {"id", "type", "error"} | {"id", "cancelled"}

The function is `solve(task)` (see SolverTask), or `solve(question, tools, *, base_url, api_key, model)`; both may be coroutines.
A parameter `url`, `max_steps`, `tools_url` or `mcp_url` gets that, too. What the function prints goes to standard error. Without a
function the runner only says that it is ready; of a script it says first whether this Python can read it.
"""

from __future__ import annotations

import asyncio
import contextvars
import http.client
import importlib
import importlib.util
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import distributions
from typing import Any
from urllib.parse import quote, urlsplit
from zipfile import is_zipfile

API_KEY = "none"
MAX_THREADS = 64
MAX_LINE = 1 << 26
MAX_ERROR_CHARS = 2_000
MAX_ANSWER_CHARS = MAX_LINE // 2
"""Longest answer, as JSON: a longer line would end the worker of all."""
HERE = os.path.dirname(os.path.abspath(__file__))
NOT_THEIRS = tuple(f"{os.path.dirname(file)}{os.sep}" for file in (os.__file__, os.path.dirname(HERE)))
"""Folders of Python's own modules, and of whichloop."""
WIRING = os.path.join(os.path.dirname(os.path.dirname(HERE)), "frameworks", "wiring")
"""Files with the names of frameworks: as modules they would hide what they are for."""


def loaded(name: str, path: str) -> Any:
    """Import a file by its path, under a name that hides nothing installed."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


typed_functions = loaded("whichloop_typed_functions", os.path.join(HERE, "typed_functions.py"))
Tools, ToolError = typed_functions.Tools, typed_functions.ToolError


class StepLimit(Exception):
    """The framework's own limit of steps ended the run; the argument is the answer that it gave there, if it gave one."""


class SolverTask:
    """What a solver of a framework gets."""

    StepLimit = StepLimit
    """Raise it where the framework says that its own limit of steps ended the run."""
    ToolError = ToolError

    def __init__(self, job: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.question: str = job["question"]
        self.url: str = job["url"]
        """Where the trial is served: the base address of Anthropic's clients, which add the version of the API themselves."""
        self.base_url = f"{job['url']}/v1"
        self.api_key = API_KEY
        self.model: str = job["model"]
        self.max_steps: int = job["max_steps"]
        """Requests to the model."""
        self.tools_url = f"{job['url']}/tools"
        """GET lists the tools, POST to the address of one, its name behind a slash, runs it."""
        self.mcp_url = f"{job['url']}/mcp"
        """The same tools over MCP."""
        self.options: dict[str, Any] = job.get("options", {})
        """The options of the arm that are the framework's own."""
        self._loop = loop
        self._in_threads: list[Future[Any]] = []
        self.tools = Tools(job["tools"], self._call_async, True)
        self.sync_tools = Tools(job["tools"], self._call, False)

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        result = post(f"{self.url}/tools/{quote(name, safe='')}", arguments)
        if "status" not in result:
            raise ToolError(result.get("error", {}).get("message", "the tool could not be called"))
        if result["status"] != "success":
            raise ToolError(result["data"])
        return str(result["data"])

    async def _call_async(self, name: str, arguments: dict[str, Any]) -> str:
        return await asyncio.get_running_loop().run_in_executor(THREADS, self._call, name, arguments)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Run a blocking framework on a thread, in the context of the trial."""
        running = THREADS.submit(contextvars.copy_context().run, work)
        self._in_threads.append(running)
        return await asyncio.wrap_future(running)

    async def wait_for_threads(self) -> None:
        """Wait until none of its threads runs any more: no cancellation ends them."""
        await asyncio.gather(*(asyncio.wrap_future(running) for running in self._in_threads), return_exceptions=True)


THREADS = ThreadPoolExecutor(MAX_THREADS)
_LOCAL = threading.local()


def post(url: str, body: Any) -> Any:
    """Send JSON over this thread's connection, and return the JSON of the answer."""
    parts = urlsplit(url)
    for attempt in (0, 1):
        connection = getattr(_LOCAL, "connection", None)
        if connection is None:
            connection = _LOCAL.connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
        try:
            connection.request("POST", parts.path, json.dumps(body, default=str), {"Content-Type": "application/json"})
            answer = connection.getresponse().read()
            return json.loads(answer)
        except (http.client.HTTPException, OSError):  # the server closed an idle connection
            connection.close()
            _LOCAL.connection = None
            if attempt:
                raise
    raise AssertionError("unreachable")


IMPORTING = "WHICHLOOP_IMPORTING"
"""The variable that holds the name of the module that is being imported: see `protocol.own_code.refuse_in_import`."""


class NoProgram(Exception):
    """What is named cannot be a program; the text says why."""


def function_named(target: str) -> Callable[..., Any]:
    """Return the function that `FILE.py:FUNCTION` or `MODULE:FUNCTION` names."""
    name, _, attribute = target.rpartition(":")
    os.environ[IMPORTING] = name  # so that a module that checks itself as it is imported does not start itself without end
    try:
        if name.endswith(".py"):
            folder = os.path.dirname(os.path.abspath(name))
            if folder != WIRING:
                sys.path.insert(0, folder)
            module = loaded("whichloop_solver", name)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(name)
    finally:
        del os.environ[IMPORTING]
    return _function(module, name, attribute)


def _function(module: Any, name: str, attribute: str) -> Callable[..., Any]:
    """Return a module's function. Raises NoProgram for what is none, or cannot be called as programs are."""
    thing = getattr(module, attribute, None)
    if thing is None:
        raise NoProgram(f"{name} has no function {attribute!r}")
    if inspect.isclass(thing) or not callable(thing):
        loop = f"; a loop is named {name.removesuffix('.py')}:{attribute}, as --loop takes it" if hasattr(thing, "run") else ""
        raise NoProgram(f"{attribute!r} of {name} is not a function{loop}")
    function: Callable[..., Any] = thing
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # one of C has none
        return function
    try:
        if list(parameters) != ["task"]:
            inspect.signature(function).bind("question", "tools", **dict.fromkeys(_wanted(parameters)))
    except TypeError:
        wants = "solve(task), or solve(question, tools) with any of " + ", ".join(WHERE)
        raise NoProgram(f"{attribute}({', '.join(parameters)}): a program is {wants}") from None
    return function


WHERE = ("url", "base_url", "api_key", "model", "max_steps", "tools_url", "mcp_url")
"""What a function may get beside question and tools: the parameters of these names."""


def _wanted(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in WHERE if takes_all or name in parameters]


def call_of(solve: Callable[..., Any], task: SolverTask) -> Any:
    """Call a solver in the way that it wants: with the task, or with question, tools and where the model is."""
    parameters = inspect.signature(solve).parameters
    if list(parameters) == ["task"]:
        return lambda: solve(task)
    tools = task.tools if inspect.iscoroutinefunction(solve) else task.sync_tools
    return lambda: solve(task.question, tools, **{name: getattr(task, name) for name in _wanted(parameters)})


def read_script(file: str) -> None:
    """Raise NoProgram for a script that this Python cannot read; archives and compiled files are taken as they are."""
    if is_zipfile(file) or file.endswith(".pyc"):
        return
    try:
        with open(file, "rb") as opened:
            compile(opened.read(), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NoProgram(f"no Python program: {error}") from None


async def solved(solve: Callable[..., Any], task: SolverTask, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that ends a trial."""
    try:
        work = call_of(solve, task)
        answer = work() if inspect.iscoroutinefunction(solve) else await task.in_thread(work)
        if inspect.isawaitable(answer):
            answer = await answer
        return {"id": job["id"], "answer": answer}
    except StepLimit as limit:
        return {"id": job["id"], "stop": "max_steps", **({"answer": limit.args[0]} if limit.args else {})}
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # the boundary to the framework: whatever leaves it is named
        return {
            "id": job["id"],
            "type": type(error).__name__,
            "error": f"{error_message(error)[:MAX_ERROR_CHARS]}{innermost_line(error)}",
        }


def innermost_line(error: BaseException) -> str:
    """Return ` at my_agent.py:14`, the innermost line of the user's files that an exception passed; empty where it passed none."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(("<", *NOT_THEIRS)) and "site-packages" not in file:
            below = os.path.relpath(os.path.realpath(file))
            place = f" at {os.path.basename(file) if below.startswith(os.pardir) else below}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def error_message(error: BaseException) -> str:
    """Return what an exception says; some cannot say it."""
    try:
        return str(error)
    except Exception as worse:
        return f"its text cannot be made: {type(worse).__name__}"


def line_of(message: Mapping[str, Any]) -> str:
    """Return a message as a line: one whose answer is no JSON, or too long, becomes the error that this is."""
    try:
        line = json.dumps(message, default=str)
    except Exception as error:  # whatever the answer's own `__str__` raises, too
        return json.dumps(
            {"id": message["id"], "type": type(error).__name__, "error": f"its answer is not JSON: {error_message(error)}"}
        )
    if "answer" in message and len(line) > MAX_ANSWER_CHARS:
        return json.dumps(
            {"id": message["id"], "type": "flood", "error": f"its answer is longer than {MAX_ANSWER_CHARS:,} characters"}
        )
    return line


def ready() -> dict[str, Any]:
    return {"ready": {"python": sys.version.split()[0], "packages": packages()}}


def packages() -> dict[str, str]:
    """Return names and versions of what is installed.

    It reads the first lines of each package's metadata: `importlib.metadata` parses the whole text, again for each field that it is
    asked for, which takes longer than Python's start.
    """
    metadata = (_headers(item.read_text("METADATA") or item.read_text("PKG-INFO") or "") for item in distributions())
    return {headers["name"]: headers.get("version", "") for headers in metadata if headers.get("name")}


def _headers(metadata: str) -> dict[str, str]:
    """Return the fields above a description by their names in small letters, of each the first."""
    fields: dict[str, str] = {}
    for line in metadata.split("\n"):
        if not line.strip():
            break
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), value.lstrip(" \t").rstrip("\r"))
    return fields


async def serve(solve: Callable[..., Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Take jobs until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: dict[int, Any] = {}

    async def one(job: Mapping[str, Any]) -> None:
        task = SolverTask(job, loop)
        try:
            say(await solved(solve, task, job))
        except asyncio.CancelledError:
            await task.wait_for_threads()
            say({"id": job["id"], "cancelled": True})
        finally:
            running.pop(job["id"], None)

    say(ready())
    while True:
        line = await reader.readline()
        if not line:
            return
        job = json.loads(line)
        if "cancel" not in job:
            running[job["id"]] = loop.create_task(one(job))
        elif job["cancel"] in running:
            running[job["cancel"]].cancel()


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints must not get between the lines
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != HERE]  # these files are no modules of the program
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with lock:
            out.write(line_of(message) + "\n")
            out.flush()

    target = sys.argv[1]
    try:
        if not target or os.path.isfile(target):
            if target:
                read_script(target)
            say(ready())
            return
        solve = function_named(target)
    except BaseException as error:
        kind = "" if isinstance(error, NoProgram) else f"{type(error).__name__}: "
        say({"failed": f"{kind}{error_message(error)}"})
        raise
    asyncio.run(serve(solve, say))
    os._exit(0)  # threads of frameworks shall not keep it alive


if __name__ == "__main__":
    main()

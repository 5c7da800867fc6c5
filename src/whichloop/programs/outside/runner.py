"""Runs a solver for one trial after the other, or for many at once, in the interpreter of a framework or of a user's agent.

    python runner.py FILE.py:FUNCTION | MODULE:FUNCTION | ""

Standard library only, Python 3.9 or later, and nothing of whichloop. It reads one JSON object a line, and writes one:

    in   {"id", "question", "tools": [{"name", "description", "parameters"}], "url", "model", "max_steps", "options"}
    out  {"ready": {}}, once; or {"failed": TEXT}, and it ends
         {"id", "answer"} | {"id", "stop": "max_steps"[, "answer"]} | {"id", "type", "error"}

The function is `solve(task)` (see SolverTask), or `solve(question, tools, *, base_url, api_key, model)`; both may be coroutines.
A parameter `url`, `max_steps`, `tools_url` or `mcp_url` gets that, too. What the function prints goes to standard error. Without
anything the runner only says which Python it is and which packages it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import http.client
import importlib
import importlib.util
import inspect
import json
import keyword
import linecache
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from importlib.metadata import distributions
from typing import Any, Literal, Optional, Union
from urllib.parse import quote, urlsplit

MAX_LINE = 1 << 26
MAX_ERROR_CHARS = 2_000
MAX_ANSWER_CHARS = MAX_LINE // 2
"""Longest answer, as JSON: a longer line would end the worker of all."""
THREADS = ThreadPoolExecutor(64)
HERE = os.path.dirname(os.path.abspath(__file__))
NOT_THEIRS = tuple(f"{os.path.dirname(file)}{os.sep}" for file in (os.__file__, os.path.dirname(HERE)))
"""Folders of Python's own modules, and of whichloop."""
WIRING = os.path.join(os.path.dirname(os.path.dirname(HERE)), "frameworks", "wiring")
"""Files with the names of frameworks: as modules they would hide what they are for."""
IMPORTING = "WHICHLOOP_IMPORTING"
"""The variable that holds the name of the module that is being imported: see `protocol.own_code.refuse_in_import`."""
WHERE = ("url", "base_url", "api_key", "model", "max_steps", "tools_url", "mcp_url")
"""What a function may get beside question and tools: the parameters of these names."""
CALL = "_whichloop_call"
"""What the functions call; no argument may have that name."""
LITERAL = (str, int, bool, type(None))
"""Types of values that a `Literal` may have; values of other types are told by the schema's `type`, if it has one."""
PLAIN_TYPES = {
    "string": "str", "number": "float", "integer": "int", "boolean": "bool", "object": "dict", "array": "list", "null": "None",
}  # fmt: skip
NAMES = {"Any": Any, "Literal": Literal, "Optional": Optional, "Union": Union}
"""What the source of a function has beside keywords: types, and numbers whose texts are no literals."""


# --- tools as typed functions ---


def annotation(schema: Any) -> str:
    """Return a JSON schema as the text of a Python annotation; `Any` for what Python's types do not say."""
    if not isinstance(schema, dict):
        return "Any"
    listed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if isinstance(listed, list) and listed and all(isinstance(value, LITERAL) for value in listed):
        return f"Literal[{', '.join(map(repr, listed))}]"
    kind = schema.get("type")
    listed_kinds = [{**schema, "type": one} for one in kind] if isinstance(kind, list) else []
    if options := schema.get("anyOf") or schema.get("oneOf") or listed_kinds:
        kinds = [annotation(option) for option in options]
        rest = list(dict.fromkeys(one for one in kinds if one != "None"))
        inner = "None" if not rest else rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
        return f"Optional[{inner}]" if "None" in kinds and rest else inner
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list[{annotation(schema['items'])}]"
    return PLAIN_TYPES.get(str(kind), "Any")


def source(tool: Mapping[str, Any], is_async: bool) -> str:
    """Return the source of the function for a tool (name, description, parameters). Its docstring is in Google's style.

    Raises ValueError for a name of the tool or of an argument that no Python function can have.
    """
    name, parameters = tool["name"], tool["parameters"]
    properties, required = parameters.get("properties", {}), set(parameters.get("required", ()))
    for word in (name, *properties):
        is_itself = unicodedata.normalize("NFKC", word) == word  # Python reads a name as this form of it
        if not (word.isidentifier() and is_itself) or keyword.iskeyword(word) or word == CALL:
            raise ValueError(f"tool {name!r}: no Python function can have the name {word!r}")
    signature, lines = [], [tool["description"] or name, *(["", "Args:"] if properties else [])]
    order = sorted(properties, key=lambda word: word not in required)
    for word in order:
        schema, kind = properties[word], annotation(properties[word])
        fields = schema if isinstance(schema, dict) else {}
        default = fields.get("default")
        with contextlib.suppress(TypeError, ValueError):
            default = json.loads(json.dumps(default), parse_constant=lambda _: None)
        if word not in required:
            kind = kind if default is not None or kind.startswith("Optional") or kind == "Any" else f"Optional[{kind}]"
            kind = f"{kind} = {default!r}"
        signature.append(f"{word}: {kind}")
        lines.append(f"    {word}: {fields.get('description') or fields.get('title') or word}")
    arguments = ", ".join(f"{word!r}: {word}" for word in order)
    head, wait, doc = "async def" if is_async else "def", "await " if is_async else "", "\n".join(lines)
    return f"{head} {name}({', '.join(signature)}) -> str:\n    {doc!r}\n    return {wait}{CALL}({name!r}, {{{arguments}}})\n"


@lru_cache(maxsize=4096)
def compiled(name: str, text: str) -> Any:
    """Return the code of a function's source, which stays readable: some frameworks look at it."""
    file = f"<tool {name} {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return compile(text, file, "exec", dont_inherit=True)  # else annotations would be texts


def typed_function(tool: Mapping[str, Any], call: Callable[[str, dict[str, Any]], Any], is_async: bool) -> Callable[..., Any]:
    """Return the function for a tool; it calls `call(name, arguments)`. Raises ValueError as `source` does."""
    space: dict[str, Any] = {**NAMES, CALL: call, "__name__": "whichloop_tools"}
    exec(compiled(tool["name"], source(tool, is_async)), space)  # noqa: S102  # the text is ours, and names in it are checked; values are literals
    function: Callable[..., Any] = space[tool["name"]]
    return function


class ToolError(Exception):
    """A tool's error, its type in front."""


class Tools:
    """The tools of a task: iterate over them for typed functions, or call them by name."""

    def __init__(self, listed: list[dict[str, Any]], call: Callable[[str, dict[str, Any]], Any], is_async: bool) -> None:
        self.schemas = [{"type": "function", "function": tool} for tool in listed]
        """As OpenAI's `tools` has them."""
        self.call = call
        """`call(name, arguments)`: the result as text; a coroutine if the solver is one. Raises ToolError."""
        self._by_name, self._is_async = {tool["name"]: tool for tool in listed}, is_async

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (self[name] for name in self._by_name)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return typed_function(self._by_name[name], self.call, self._is_async)

    def __len__(self) -> int:
        return len(self._by_name)


# --- trials ---


class NoProgram(Exception):
    """What is named cannot be a program; the text says why."""


class StepLimit(Exception):
    """The framework's own limit of steps ended the run; the argument is the answer that it gave there, if it gave one."""


class SolverTask:
    """What a solver of a framework gets."""

    StepLimit = StepLimit
    """Raise it where the framework says that its own limit of steps ended the run."""
    ToolError = ToolError

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.question: str = job["question"]
        self.model: str = job["model"]
        self.max_steps: int = job["max_steps"]
        """Requests to the model."""
        self.options: dict[str, Any] = job["options"]
        """The options of the arm that are the framework's own."""
        self.api_key = "none"
        self.url: str = job["url"]
        """Where the trial is served: the base address of Anthropic's clients, which add the version of the API themselves."""
        self.base_url, self.tools_url, self.mcp_url = f"{self.url}/v1", f"{self.url}/tools", f"{self.url}/mcp"
        self.tools = Tools(job["tools"], self._call_async, True)
        self.sync_tools = Tools(job["tools"], self._call, False)

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        where = urlsplit(f"{self.tools_url}/{quote(name, safe='')}")
        connection = http.client.HTTPConnection(where.netloc)
        try:
            connection.request("POST", where.path, json.dumps(arguments, default=str), {"Content-Type": "application/json"})
            result = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if result.get("status") != "success":
            raise ToolError(result["data"] if "status" in result else result["error"]["message"])
        return str(result["data"])

    async def _call_async(self, name: str, arguments: dict[str, Any]) -> str:
        return await asyncio.get_running_loop().run_in_executor(THREADS, self._call, name, arguments)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Run a blocking framework on a thread, in the context of the trial."""
        return await asyncio.wrap_future(THREADS.submit(contextvars.copy_context().run, work))


def loaded(name: str, path: str) -> Any:
    """Import a file by its path, under a name that hides nothing installed."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function_named(target: str) -> Callable[..., Any]:
    """Return the function that `FILE.py:FUNCTION` or `MODULE:FUNCTION` names. Raises NoProgram for what cannot be one."""
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
    thing = getattr(module, attribute, None)
    if thing is None:
        raise NoProgram(f"{name} has no function {attribute!r}")
    if inspect.isclass(thing) or not callable(thing):
        loop = f"; a loop is named {name.removesuffix('.py')}:{attribute}, as --loop takes it" if hasattr(thing, "run") else ""
        raise NoProgram(f"{attribute!r} of {name} is not a function{loop}")
    signature = inspect.signature(thing)
    try:
        if list(signature.parameters) != ["task"]:
            signature.bind("question", "tools", **dict.fromkeys(_wanted(signature)))
    except TypeError:
        wants = "solve(task), or solve(question, tools) with any of " + ", ".join(WHERE)
        raise NoProgram(f"{attribute}({', '.join(signature.parameters)}): a program is {wants}") from None
    function: Callable[..., Any] = thing
    return function


def _wanted(signature: inspect.Signature) -> list[str]:
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    return [name for name in WHERE if takes_all or name in signature.parameters]


async def solved(solve: Callable[..., Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that ends a trial, but for its id."""
    task = SolverTask(job)
    try:
        is_async, signature = inspect.iscoroutinefunction(solve), inspect.signature(solve)
        if list(signature.parameters) == ["task"]:
            work = partial(solve, task)
        else:
            more = {name: getattr(task, name) for name in _wanted(signature)}
            work = partial(solve, task.question, task.tools if is_async else task.sync_tools, **more)
        answer = work() if is_async else await task.in_thread(work)
        return {"answer": await answer if inspect.isawaitable(answer) else answer}
    except StepLimit as limit:
        return {"stop": "max_steps", **({"answer": limit.args[0]} if limit.args else {})}
    except BaseException as error:  # the boundary to the framework: whatever leaves it is named
        return {"type": type(error).__name__, "error": f"{error_message(error)[:MAX_ERROR_CHARS]}{innermost_line(error)}"}


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
        if len(line) <= MAX_ANSWER_CHARS:
            return f"{line}\n"
        kind, why = "flood", f"its answer is longer than {MAX_ANSWER_CHARS:,} characters"
    except Exception as error:  # whatever the answer's own `__str__` raises, too
        kind, why = type(error).__name__, f"its answer is not JSON: {error_message(error)}"
    return json.dumps({"id": message["id"], "type": kind, "error": why}) + "\n"


async def serve(solve: Callable[..., Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Take jobs until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()

    async def one(job: Mapping[str, Any]) -> None:
        say({"id": job["id"], **await solved(solve, job)})

    say({"ready": {}})
    while line := await reader.readline():
        task = loop.create_task(one(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints must not get between the lines
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != HERE]  # these files are no modules of the program

    def say(message: dict[str, Any]) -> None:
        out.write(line_of(message))
        out.flush()

    target = sys.argv[1]
    try:
        if not target:
            found = {each["Name"]: each["Version"] or "" for item in distributions() if (each := item.metadata)["Name"]}
            say({"ready": {"python": sys.version.split()[0], "packages": found}})
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

"""Names as the user types them: `name`, `name(option=value)`, `name@FILE`, and `package.module:Name` for the user's code.

Code is imported only for names in a configuration or on the command line, never because a file of ours names it.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import json
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .own_code import raised_at
from .values import shown_short

_NAME = re.compile(r"\s*([A-Za-z_][\w.:-]*)\s*")
_BARE_WORD = re.compile(r"(?:[A-Za-z_]|~?/|\.{1,2}/|\.[A-Za-z_])[\w./+@-]*")
"""A word or a path, which needs no quotes."""
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The user's code, `package.module:Name`, which needs no quotes either."""
_TOML_WORDS = frozenset({"true", "false", "inf", "nan"})
SCRIPTED = "scripted"
"""The model that follows each task's plan, with faults by a profile: it needs no flag. Records and manifests have this name."""
LOCAL, LOCAL_FILE = "local", "local:"
"""The model of the installed weights, and what stands before the file of others: both run in this process."""
_TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|.', re.DOTALL)
"""A quoted text of TOML, or one character."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A name with options, as the user typed it."""

    name: str
    options: Mapping[str, Any]
    program: str | None = None

    def __str__(self) -> str:
        """Return the canonical text, whose options are sorted and whose values are TOML."""
        return self._text(self.program)

    @property
    def label(self) -> str:
        """The same text, without the folder of the program's file."""
        return self._text(None if self.program is None else Path(self.program).name)

    def _text(self, program: str | None) -> str:
        options = ", ".join(f"{key}={value_text(value)}" for key, value in sorted(self.options.items()))
        return f"{self.name}{f'({options})' if options else ''}{'' if program is None else f'@{program}'}"


def is_local_model(name: str) -> bool:
    """Return whether a model's name is that of one in this process."""
    return name == LOCAL or name.startswith(LOCAL_FILE)


def parse_spec(text: str) -> Spec:
    """Read `name(option=value, …)`, with or without `@FILE` behind it. Raises ValueError for any other text."""
    match = _NAME.match(text)
    if match is None:
        raise _no_name(text)
    inside, rest = _bracketed(text[match.end() :])
    if rest and (not rest.startswith("@") or not rest[1:].strip()):
        raise _no_name(text)
    return Spec(match.group(1), _options(inside, text), rest[1:].strip() or None)


def _no_name(text: str) -> ValueError:
    own = f", or {OF_A_FILE}" if ".py" in text else ""
    return ValueError(f"{shown_short(text)} is not a name; write name, name(option=value) or name@FILE{own}")


OF_A_FILE = "MODULE:NAME, such as my_loop:MyLoop for the class MyLoop in my_loop.py"
"""How what stands in a file is named, for whoever has typed the file's name."""


def _bracketed(text: str) -> tuple[str, str]:
    """Split a text into the contents of the brackets that it begins with, empty without brackets, and the rest."""
    depth = 0
    for token in _TOKEN.finditer(text) if text.startswith("(") else ():
        depth += (token.group() == "(") - (token.group() == ")")
        if depth == 0:
            return text[1 : token.start()], text[token.end() :].strip()
    return "", text.strip()


def _options(inside: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in _split(inside):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ValueError(f"{text!r}: {part.strip()!r} is not an option; write option=value")
        if key.strip() in options:
            raise ValueError(f"{text!r}: option {key.strip()!r} is a duplicate")
        options[key.strip()] = _value(value.strip(), text)
    return options


def _split(text: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        depth += (token.group() in "([{") - (token.group() in ")]}")
        if token.group() == "," and depth == 0:
            parts.append(text[start : token.start()])
            start = token.end()
    return [part for part in (*parts, text[start:]) if part.strip()]


def _value(text: str, whole: str) -> Any:
    try:
        document = tomllib.loads(f"value = [{text}]")
        if document.keys() == {"value"} and len(document["value"]) == 1:
            return document["value"][0]
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        if _BARE_WORD.fullmatch(text) or _REFERENCE.fullmatch(text):
            return text
        if text.endswith(")") and "\n" not in text:  # a loop inside another one, with options of its own
            with contextlib.suppress(ValueError, RecursionError):
                parse_spec(text)
                return text
    raise ValueError(f'{shown_short(whole)}: {shown_short(text)} is not a TOML value, such as 3, true or "two words"')


def parse_values(text: str) -> list[Any]:
    """Read option values with commas between them, `0,2,"a, b"`. Raises ValueError for one that is neither TOML nor a word."""
    return [_value(part.strip(), text) for part in _split(text)]


def value_text(value: Any) -> str:
    """Return a value as TOML; text is quoted only if it would not read as itself."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _BARE_WORD.fullmatch(value) and value not in _TOML_WORDS else _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(toml_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_quoted(key)} = {toml_text(item)}' for key, item in value.items())}}}"
    return str(value)


def toml_text(value: Any) -> str:
    """Return a value as TOML, text in quotes."""
    return _quoted(value) if isinstance(value, str) else value_text(value)


def _quoted(text: str) -> str:
    """Return a basic string of TOML, which is one of JSON with DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


MIN_PART = 3
"""Characters of a part that tells which name is meant."""
MAX_KNOWN = 90
"""Characters of the known names in a message, which is to fit two lines of a terminal."""


def most_like(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that has a typed one as a part, or else is most like it, in any case; None if none is like it."""
    folded = {item.casefold(): item for item in known_names}
    typed = name.casefold()
    containing = [item for item in folded if len(typed) >= MIN_PART and typed in item]
    alike = containing or difflib.get_close_matches(typed, folded, 1)
    return folded[alike[0]] if alike else None


def near(name: str, known_names: Iterable[str]) -> str:
    """Return a question after the known name that is most like a mistyped one; empty if none is like it."""
    nearest_name = most_like(name, known_names)
    return "" if nearest_name is None else f"did you mean {nearest_name!r}?"


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return the nearest known name, and the names that there are, or of many the first."""
    names = list(known_names)
    text = ", ".join(names)
    if len(text) > MAX_KNOWN:
        listed = text[:MAX_KNOWN].split(", ")[:-1] or names[:1]
        text = f"{', '.join(listed)} and {len(names) - len(listed)} more"
    return f"{near(name, names)} known: {text or 'none'}".lstrip()


def meant(typed: str, names: Collection[str]) -> list[str]:
    """Return the names that may be meant by a part of one: that name; else those that have it as a whole part between slashes; else
    those that contain what stands between its slashes, in that order. Of these the ones with most of it as whole parts: `bare/0001`
    means `bare/clean/arithmetic-0001/0`, not `guarded(loop=bare)/clean/arithmetic-0001/0`.
    """
    if typed in names:
        return [typed]
    if whole := [name for name in names if f"/{typed}/" in f"/{name}/"]:
        return whole
    parts = [part for part in typed.split("/") if part]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    matching = {name: sum(f"/{part}/" in f"/{name}/" for part in parts) for name in names if pattern.search(name)}
    most = max(matching.values(), default=0)
    return [name for name, exact in matching.items() if exact == most]


def several(names: Sequence[str]) -> str:
    """Return the first of the names that may be meant, for a message that asks which."""
    return ", ".join(names[:MAX_MEANT]) + (", …" if len(names) > MAX_MEANT else "")


MAX_MEANT = 4


# --- the user's code ---

ONE_PROCESS = ("__main__", "whichloop.session")
"""Modules whose contents live in one process: the script or notebook that runs, and what it handed over as objects."""


def lives_in_one_process(name: str) -> bool:
    """Return whether `module:Name` leads to what no other process can import."""
    module, colon, _ = name.partition(":")
    return bool(colon) and module in ONE_PROCESS


def without_process(spec: str) -> str:
    """Return a name as its user knows it: `Tips(n=2)` for `__main__:Tips(n=2)`, and for what a session keeps."""
    module, _, rest = spec.partition(":")
    return rest if module in ONE_PROCESS and rest else spec


WHY_GONE = "was made in a session that has ended: put it in a module, or hand it to a new run"
"""What to say of a name that `is_gone`, behind the name."""


def is_gone(name: str) -> bool:
    """Return whether `module:Name` was defined in a script or a session other than this one; nothing is imported."""
    module, _, attribute = name.partition(":")
    return lives_in_one_process(name) and not hasattr(sys.modules.get(module), attribute)


def own_object(kind: str, name: str) -> Any:
    """Return what `package.module:Name` names. `kind`: what it should be, for messages.

    Raises ValueError if it does not exist or its module cannot be imported.
    """
    module_name, _, attribute = name.partition(":")
    if is_gone(name):
        raise ValueError(f"{kind} {without_process(name)!r} {WHY_GONE}")
    module = own_module(kind, name, module_name)
    if not attribute:
        raise ValueError(f"{kind} {name!r}: write what of {module_name} is meant, {module_name}:NAME")
    if not hasattr(module, attribute):
        hint = near(attribute, [candidate for candidate in vars(module) if not candidate.startswith("_")])
        raise ValueError(f"{kind} {name!r}: {module_name} has no {attribute!r}{f'; {hint}' if hint else ''}")
    return getattr(module, attribute)


def own_module(kind: str, name: str, module_name: str) -> ModuleType:
    """Import a module; the current directory is searched last. `kind` and `name`: for messages.

    Raises ValueError if it cannot be imported.
    """
    if "/" in module_name or module_name.endswith(".py"):
        raise ValueError(f"{kind} {name!r}: write {OF_A_FILE}")
    try:
        return _module(module_name)
    except (Exception, SystemExit) as error:  # the boundary to the user's own code; a script may end in sys.exit()
        at = "" if isinstance(error, SyntaxError) else raised_at(error)  # the text of one names its line itself
        missing = f"no module named {error.name!r}" if isinstance(error, ModuleNotFoundError) else ""
        what = missing or f"importing {module_name} failed: {type(error).__name__}: {error}"
        raise ValueError(f"{kind} {name!r}: {what}{f' ({at})' if at else ''}") from error


def _module(name: str) -> ModuleType:
    """Raises whatever importing the module raises."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):  # the module exists, and something that it imports does not
            raise
    here = str(Path.cwd())
    sys.path.append(here)  # at the end, so that it never hides what is installed
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    finally:
        del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]
    OWN_CODE_FOLDERS.add(here)
    return module


OWN_CODE_FOLDERS: set[str] = set()
"""Folders off the search path in which code of the user's own was found."""


def own_folder() -> list[str]:
    """Return the current directory if code of the user's own was found there and not on the search path, else nothing: a worker
    looks there for what such code imports while it runs."""
    here = str(Path.cwd())
    return [here] if here in OWN_CODE_FOLDERS and here not in sys.path else []


_SHORT = re.compile(r"(?P<command>.*?)\s*(?P<options>\(\s*[A-Za-z_]\w*\s*=.*\))?", re.DOTALL)


def program_spec(text: str) -> str:
    """Return the loop that a command line or the name of a function stands for, with options in brackets behind it.

    `python my_agent.py` is `program(command="python my_agent.py")`, and `my.module:solve(venv=new)` has that option, too.
    Raises ValueError, without the name of a flag, for an empty one, and for options that cannot be read.
    """
    parts = _SHORT.fullmatch(text.strip())
    assert parts is not None
    options = parse_spec(f"program{parts['options'] or ''}").options
    if not parts["command"]:
        raise ValueError("write a command line, my.module:function or FILE.py:function")
    if "command" in options:
        raise ValueError(f"{text!r}: command stands in front of the brackets")
    return str(Spec("program", {"command": parts["command"], **options}))

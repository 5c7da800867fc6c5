"""Takes over the rules of gitleaks and detect-secrets that say by themselves what a key looks like.

    python -m tests.protocol.secret_rules GITLEAKS_TOML

`GITLEAKS_TOML` is `config/gitleaks.toml` of a release of gitleaks (MIT licence), which is written for Go's regular expressions.
Taken over is a rule whose matches begin with letters that say whose key it is (`npm_`, `shpat_`), that is long enough, and that has
no white space, quotes and wildcards: such a rule is linear in Python too, and finds no digest and no uuid. Rules that look for a
name before the key are not taken over: `whichloop.protocol.redact` has its own, for names and values however often JSON
escapes them.
"""

from __future__ import annotations

import json
import re
import re._constants as ops
import re._parser as parser
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import detect_secrets.plugins
from detect_secrets.plugins.base import RegexBasedDetector

RULES = Path(__file__).parents[2] / "src" / "whichloop" / "protocol" / "secret_rules.json"
MIN_PREFIX = 3
MIN_CHARS = 16
_ENDS = (r"""(?:[\x60'"\s;]|\\[nr]|$)""", r"""(?:[\x60'"\s;]|\\[nr]|$|\b)""", r"(?:[^\w-]|\z)")
"""How gitleaks ends a rule; a secret taken out of JSON, prose or an address ends in more ways."""
_NOT_OF_A_KEY = frozenset(map(ord, " \t\n\r\"'\\<>:@"))


def detectors() -> Iterator[RegexBasedDetector]:
    """Yield the detectors of detect-secrets that have regular expressions."""
    for module in iter_modules(detect_secrets.plugins.__path__):
        for made in vars(import_module(f"detect_secrets.plugins.{module.name}")).values():
            if isinstance(made, type) and issubclass(made, RegexBasedDetector) and made is not RegexBasedDetector:
                yield made()


def for_python(regex: str) -> str:
    """Return a regular expression of Go for Python: `(?i)` holds to the end of its group, and groups capture nothing."""
    for end in _ENDS:
        regex = regex.removesuffix(end)
    regex = regex.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    regex = re.sub(r"\(\?P<\w+>", "(?:", re.sub(r"\A(\(\?i\))?\\b", r"\1", regex))
    made, opened, in_class, at = "", [0], False, 0
    while at < len(regex):
        part = regex[at : at + 2] if regex[at] == "\\" else regex[at]
        if regex.startswith("(?i)", at):
            part, made = "(?i)", f"{made}(?i:"
            opened[-1] += 1
        elif in_class or part[0] == "\\":
            made += part
            in_class = in_class and part != "]"
        elif part == "(":
            made += "(" if regex.startswith("(?", at) else "(?:"
            opened.append(0)
        elif part == ")":
            made += ")" * (opened.pop() + 1)
        else:
            made += part
            in_class = part == "["
        at += len(part)
    return made + ")" * opened[0]


def prefixes(items: Any) -> tuple[set[str], bool]:
    """Return what a parsed expression can begin with, as far as it is certain, and whether that is all of it."""
    begun = {""}
    for op, value in items:
        if op is ops.AT:
            continue
        if op is ops.LITERAL:
            more, whole = {chr(value)}, True
        elif op is ops.SUBPATTERN:
            more, whole = prefixes(value[3])
        elif op is ops.BRANCH:
            found = [prefixes(branch) for branch in value[1]]
            more, whole = set().union(*(texts for texts, _ in found)), all(whole for _, whole in found)
        elif op is ops.IN and len(value) <= 4 and all(kind is ops.LITERAL for kind, _ in value):
            more, whole = {chr(code) for _, code in value}, True
        else:
            return begun, False
        begun = {one + other for one in begun for other in more}
        if not whole:
            return begun, False
    return begun, True


def _is_wild(part: tuple[Any, Any]) -> bool:
    """Return whether a part of a class of characters has others than those of keys."""
    kind, what = part
    if kind is ops.LITERAL:
        return what in _NOT_OF_A_KEY
    return kind is ops.NEGATE or (kind is ops.CATEGORY and what not in (ops.CATEGORY_WORD, ops.CATEGORY_DIGIT))


def _within(op: Any, value: Any) -> list[Any]:
    """Return the expressions within a part of an expression."""
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return [value[2]]
    return list(value[1]) if op is ops.BRANCH else []


def _only_of_a_key(items: Any) -> bool:
    """Return whether a parsed expression matches neither white space nor quotes, nor whatever there is."""
    for op, value in items:
        if op in (ops.ANY, ops.NOT_LITERAL, ops.GROUPREF, ops.ASSERT, ops.ASSERT_NOT):
            return False
        if op is ops.LITERAL and value in _NOT_OF_A_KEY:
            return False
        if op is ops.IN and any(map(_is_wild, value)):
            return False
        inner = _within(op, value)
        if not all(map(_only_of_a_key, inner)):
            return False
    return True


def is_a_shape(regex: str) -> bool:
    """Return whether a rule finds keys by what they look like alone."""
    parsed = parser.parse(regex)
    begins, whole = prefixes(parsed)
    named = all(len(text) >= MIN_PREFIX and re.search("[^0-9a-fA-F]", text) for text in begins)
    return named and not whole and parsed.getwidth()[0] >= MIN_CHARS and _only_of_a_key(parsed)


def selected(gitleaks: str) -> dict[str, str]:
    """Return rule → regular expression, of both sets; each expression once."""
    rules = {f"gitleaks: {rule['id']}": for_python(rule["regex"]) for rule in tomllib.loads(gitleaks)["rules"] if "regex" in rule}
    for detector in detectors():
        for number, pattern in enumerate(detector.denylist):
            if not pattern.flags & re.VERBOSE:
                regex = for_python(pattern.pattern)
                ignores_case = pattern.flags & re.IGNORECASE
                rules[f"detect-secrets: {type(detector).__name__} {number}"] = f"(?i:{regex})" if ignores_case else regex
    found = {name: regex for name, regex in rules.items() if is_a_shape(regex)}
    first = {regex: name for name, regex in reversed(found.items())}
    return {name: regex for name, regex in found.items() if first[regex] == name}


def main(gitleaks: Path) -> None:
    text = gitleaks.read_text(encoding="utf-8")
    about = (
        f"Rules of gitleaks (Copyright (c) 2019 Zachary Rice, MIT licence) and detect-secrets {version('detect-secrets')} (Yelp,"
        " Apache licence 2.0), written by: python -m tests.protocol.secret_rules GITLEAKS_TOML"
    )
    RULES.write_text(json.dumps({"about": about, "rules": selected(text)}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

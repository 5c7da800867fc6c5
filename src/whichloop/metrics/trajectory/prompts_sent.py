"""What a request showed the model: its prompt as it was sent, put together again from a trace."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from whichloop.protocol.receipts import MARK, receipt_of

from ..trace import ModelExchange, TraceEvent

Prompt = Sequence[str]
"""The texts of a request's messages, in order."""

WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"\w+")
MIN_WORDS = 4
"""A text of fewer words is looked for as it is only: words of their own say little."""


def prompts(happened: Iterable[TraceEvent]) -> list[Prompt]:
    """Return the prompt that each event sent; empty for an event that is not a request.

    A trace keeps of a request what the last one of its role and scope had not shown yet.
    """
    latest: dict[tuple[str, str], tuple[str, ...]] = {}
    prompts_found: list[Prompt] = []
    for event in happened:
        if not isinstance(event, ModelExchange):
            prompts_found.append(())
            continue
        key = (event.role, event.scope)
        latest[key] = (*latest.get(key, ())[: max(event.same, 0)], *event.texts)
        prompts_found.append(latest[key])
    return prompts_found


def shows(prompt: Prompt, text: str, illegible: Collection[str] = ()) -> bool:
    """Whether a prompt shows a text: by its receipt where it has one, else as it is, quoted, or nine in ten of its words.

    `illegible`: receipts, CALL.CONTENT, whose marks prove nothing: beside them a scripted model could not read in this prompt what
    its plan goes on to use of their results.
    """
    marks = {match[0]: receipt_of(match) for match in MARK.finditer(text)}
    if marks:
        return any(mark in message for message in prompt for mark, receipt in marks.items() if receipt not in illegible)
    plain = text.strip()
    quoted = json.dumps(plain, ensure_ascii=False)[1:-1]
    twice = json.dumps(quoted, ensure_ascii=False)[1:-1]
    forms = {plain, quoted, twice, json.dumps(plain)[1:-1]}
    if any(form in message for message in prompt for form in forms):
        return True
    words = set(_TOKEN.findall(plain))
    if len(words) < MIN_WORDS:
        return False
    seen = {word for message in prompt for word in _TOKEN.findall(message.replace("\\n", " "))}
    return 10 * len(words & seen) >= 9 * len(words)


def says_more(before: Prompt, now: Prompt, own: str) -> bool:
    """Whether a prompt tells the model more than the one before did, its own reply and numbers aside.

    Bags of words, so that it holds for any loop's wording: the same question as a scripted model's "has feedback been shown?".
    """
    # Most of a prompt is the same as before, and would cancel out.
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, now, strict=False)))
    new = _words(now[same:]) - _words(before[same:])
    new -= Counter(WORD.findall(own))
    return bool(new)


def _words(prompt: Prompt) -> Counter[str]:
    counted: Counter[str] = Counter()
    for message in prompt:
        counted.update(WORD.findall(message))
    return counted

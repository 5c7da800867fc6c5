"""Answers that say there is no answer."""

from __future__ import annotations

import re


def is_abstention(answer: object) -> bool:
    """Return whether a text says, as a whole or in its leading statement, that there is no answer or that nobody can know it.

    Silence (None, empty text) is not an abstention, nor is what a harness or a loop writes when it gives up ("Maximum steps reached
    without final answer", "No answer was produced."). English only.
    """
    if not isinstance(answer, str):
        return False
    lead = answer.lstrip()[:_LEAD_CHARS].casefold().replace("\u2019", "'")
    return _ABSTENTION.match(lead) is not None


_LEAD_CHARS = 600
"""A leading statement is over by then; what follows is not read."""

_NOT = r"(?:can\s?not|can't|could\s+not|couldn't)"
_TELL = r"(?:determine|answer|say|tell|know|infer|establish|calculate|compute|derive|deduce|ascertain|conclude)"
_TOLD = r"(?:determined|answered|known|inferred|established|calculated|computed|derived|deduced|ascertained|concluded)"
_MATERIAL = r"(?:information|data|evidence|context|details?)"
_OPENER = (
    r"(?:(?:i'm|i\s+am|we\s+are)\s+sorry|sorry|unfortunately|but"
    r"|(?:the\s+)?(?:final\s+)?answer(?=\s*[:=]|\s+is\b)(?:\s+is\b)?)[\W_]*"
)
_SUBJECT = r"(?:(?!(?:but|although|though|while|and|because|since|so|if|or)\b|\w*\d)[\w'-]+\s+){0,8}?"
_ENDS = (
    r"(?=\W*$|[^\w\s](?!\w)|\s+[^\w\s]|\s*\n"
    r"|\s+(?:because|since|as|from|based|given|due|in\s+the|by\s+the|with\s+the|to\s+me|at\s+this|at\s+present)\b)"
)
"""What must follow a bare word, so that "Unknown Soldier" is an answer."""

_ABSTENTION = re.compile(
    rf"""
    [\W_]* (?:{_OPENER}){{0,3}}
    (?:
        {_SUBJECT} {_NOT}\s+be\s+{_TOLD}\b
      | {_SUBJECT} (?:is|was|are|were|remains)\s+(?:not\s+(?:determined|determinable|known|answerable)|unknown|undetermined
          |unanswerable|indeterminate|undeterminable)\b {_ENDS}
      | (?:i|we)\s+(?:do\s+not|don't)\s+know\b
      | (?:(?:i|we)\s+)? (?:{_NOT}|(?:(?:i'm|am|are|is|was|were)\s+)?(?:unable|not\s+able)\s+to)\s+{_TELL}\b
      | (?:(?:i|we)\s+)? {_NOT}\s+find\s+(?:an|any|the|enough|sufficient)\s+(?:answer|{_MATERIAL})\b
      | (?:it\s+is|it's|it\s+was)\s+(?:not\s+possible|impossible|unclear)\s+to\s+{_TELL}\b
      | (?:there\s+(?:is|was|are)\s+)? (?:not\s+enough|insufficient|not\s+sufficient)\s+(?:\w+\s+)?{_MATERIAL}\b
      | (?:there\s+(?:is|was|are)\s+)? no\s+{_MATERIAL}\s+(?:(?:is|was|are)\s+)?(?:available|given|provided|about|on|regarding)\b
      | (?:the|this)\s+(?:passage|text|context|document|question|article)\s+(?:does\s+not|doesn't)\s+
          (?:say|state|mention|specify|provide|contain|give|tell)\b
      | (?: not\s+(?:determined|determinable|known|answerable|available|specified|stated|mentioned|given|provided)
          | unknown | undetermined | unanswerable | indeterminate | undeterminable | noanswer | no\s+{_MATERIAL}
          | (?:there\s+is\s+)?no\s+answer(?:\s+(?:exists|(?:is\s+)?possible|(?:is\s+)?available|(?:was\s+)?found
              |(?:can|could)\s+be\s+(?:given|found|determined)))?
        ) {_ENDS}
      | n/a \W*$
    )
    """,
    re.VERBOSE,
)

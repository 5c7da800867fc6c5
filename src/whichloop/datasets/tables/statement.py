"""What a query is made of, as far as it can be told before SQLite sees it.

SQLite puts a copy of an expression, or of a whole SELECT, wherever its name is used: a query of 800 characters in which each of
24 clauses uses the one before it twice takes seconds and gigabytes before authorizer or progress handler is asked at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

RESERVED = frozenset(
    {
        "all", "and", "as", "between", "case", "collate", "distinct", "else", "escape", "except", "exists", "from", "group",
        "having", "in", "intersect", "is", "isnull", "join", "limit", "not", "notnull", "null", "on", "or", "order", "select",
        "then", "union", "using", "values", "when", "where",
    }
)  # fmt: skip
"""Words of a SELECT that cannot be names."""
_WORDS = frozenset(
    {
        "asc", "by", "cast", "cross", "current", "desc", "end", "exclude", "filter", "first", "following", "full", "glob",
        "groups", "inner", "last", "left", "like", "match", "materialized", "natural", "no", "nulls", "offset", "others", "outer",
        "over", "partition", "preceding", "range", "recursive", "regexp", "right", "row", "rows", "ties", "unbounded", "window",
        "with",
    }
)  # fmt: skip
"""Words of a SELECT that can be names too: they are where an operand may begin."""
_COMPOUNDS = frozenset({"union", "intersect", "except"})
_OPERAND_WORDS = frozenset({"end", "isnull", "notnull", "null"})
"""Words after which an operand is complete."""

_ENOUGH = 30
"""So many things, each used three times, are more copies than any limit allows."""
_IDENTIFIER = re.compile(r"[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*")
"""Other names may come about by themselves: a column without a name is called by its text."""
_TOKEN = re.compile(
    r"""(?P<skip> [ \t\n\f\r\ufeff]+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
      | (?P<name> [A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]* )
      | (?P<number> [0-9][0-9A-Za-z_.]* )
      | (?P<named> [:@$][\w$]+ )
      | (?P<other> \|\| | . )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    """The text in lower case; a name without its quotes."""
    is_name: bool
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of a query that count."""

    tokens: Sequence[_Token]
    has_named_parameters: bool
    defined: frozenset[str]
    """Names of the WITH clauses."""

    @classmethod
    def of(cls, query: str) -> Statement:
        matches = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(query) if match.lastgroup != "skip"]
        tokens = [_token(group, text) for group, text in matches]
        clauses = [token.text for place, token in enumerate(tokens) if token.is_name and _clause_end(tokens, place)]
        return cls(tokens, any(group == "named" for group, _ in matches), frozenset(clauses))

    @property
    def first(self) -> str:
        return self.tokens[0].text if self.tokens else ""

    def may_be_long(self, length: int) -> bool:
        """Whether the query joins texts, or writes down one that is longer than this."""
        return any(token.text == "||" or len(token.text) > length for token in self.tokens)

    def weight(self, tables: Set[str], columns: Set[str]) -> float:
        """Return an upper bound on the tokens there are when each use of what the query names itself has become a copy of that.

        `tables`, `columns`: what the database holds. Their copies have no parts of their own, unless the query gives them anew.
        """
        names_given = self._given()
        has_compounds = any(token.text in _COMPOUNDS for token in self.tokens)  # whose columns have the names of the first part's
        selects = sum(token.text in ("select", "values") for token in self.tokens)
        weight = float(len(self.tokens))
        for name, uses in self._uses((tables if has_compounds else tables | columns) - names_given.keys()).items():
            is_sure = _IDENTIFIER.fullmatch(name) and name not in _WORDS and not has_compounds
            weight *= _most_copies(uses, names_given[name] if is_sure else selects)
        return weight

    def _uses(self, plain: Set[str]) -> Counter[str]:
        """Count the uses of each name that the query defines itself, without `plain` ones."""
        places = [place for place, token in enumerate(self.tokens) if token.text not in plain and self._is_use(place, token)]
        uses = Counter(self.tokens[place].text for place in places)
        uses.subtract({self.tokens[place].text for place in places if self._may_define(self.tokens[place])})
        return uses

    def _may_define(self, token: _Token) -> bool:
        """Whether one of the uses of a name is sure to be its definition: others come about in other ways."""
        return token.is_name and token.text not in _WORDS and token.quote in ("", "'")

    def _is_use(self, place: int, token: _Token) -> bool:
        before, behind = self._text(place - 1), self._text(place + 1)
        if token.text == "*":
            return before in ("select", "distinct", "all", ",", ".")
        is_function = behind == "(" and not _clause_end(self.tokens, place)
        if not token.is_name or behind == "." or is_function:
            return False
        if token.quote or token.text not in _WORDS:
            return bool(token.quote) or token.text not in RESERVED
        return place > 0 and not self._is_keyword(place)

    def _is_keyword(self, place: int) -> bool:
        """Whether a word that may be a name stands where none can."""
        return self._text(place - 1) in ("group", "order") or self._ends_operand(place - 1)

    def _ends_operand(self, place: int) -> bool:
        token = self.tokens[place] if place >= 0 else _Token("", False)
        if token.quote or token.text in _OPERAND_WORDS:
            return True
        if token.is_name:
            return token.text not in RESERVED
        return token.text[:1] in (")", "?") or token.text[:1].isdigit()

    def _given(self) -> Counter[str]:
        """Count how often the query gives a name to something: after AS, behind an operand, or in a WITH clause."""
        names_given: Counter[str] = Counter()
        for place, token in enumerate(self.tokens):
            if not token.is_name:
                continue
            end = _clause_end(self.tokens, place)
            if end or self._text(place - 1) == "as" or self._follows_operand(place):
                names_given[token.text] += 1
            names_given.update(inner.text for inner in self.tokens[place + 1 : end] if inner.is_name)
        return names_given

    def _follows_operand(self, place: int) -> bool:
        before = self.tokens[place - 1] if place else _Token("", False)
        if not before.quote and before.text in _WORDS and before.text not in _OPERAND_WORDS and self._is_keyword(place - 1):
            return False
        return self._ends_operand(place - 1)

    def _text(self, place: int) -> str:
        return self.tokens[place].text if 0 <= place < len(self.tokens) and not self.tokens[place].quote else ""


def _token(group: str, text: str) -> _Token:
    if group != "quoted":
        return _Token(text.lower(), group == "name")
    inner = text[1:-1]
    return _Token((inner if text[0] == "[" else inner.replace(text[0] * 2, text[0])).lower(), True, text[0])


def _most_copies(uses: int, things: int) -> float:
    """Return the largest product of the uses of things that share a name, so many uses in all and, at most, so many things."""
    return max([1.0, *((uses / share) ** share for share in range(1, min(max(1, things), uses, _ENOUGH) + 1))])


def _clause_end(tokens: Sequence[_Token], place: int) -> int:
    """Return the place of AS if a WITH clause begins here, else 0: NAME [(columns)] AS [[NOT] MATERIALIZED] (."""
    at = place + 1
    if at < len(tokens) and tokens[at].text == "(":
        at += 1
        while at < len(tokens) and tokens[at].text not in ("(", ")"):
            at += 1
        at += 1
    if at >= len(tokens) or tokens[at].text != "as":
        return 0
    behind = [token.text for token in tokens[at + 1 : at + 4] if token.text not in ("not", "materialized")]
    return at if behind and behind[0] == "(" else 0

"""How much a wire works for a long request: no more than in proportion to what it holds. Work is counted, and never timed."""

from __future__ import annotations

from typing import Any

import pytest

from whichloop.models.wires import anthropic_history, gemini, messages, responses
from whichloop.models.wires.fields import BadRequest
from whichloop.models.wires.response_items import item_id

MANY = 2_000
LONG = 20_000


class Counted(str):
    """A text that counts how often it is compared with another one."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


@pytest.fixture(autouse=True)
def _none_compared() -> None:
    Counted.comparisons = 0


def names(start: str) -> list[str]:
    """Return different texts, which are new objects each time."""
    return [Counted(f"{start}{number}") for number in range(MANY)]


def anthropic(*said: Any) -> Any:
    return messages.read_request({"model": "m", "max_tokens": 9, "messages": list(said)}).request


def test_results_of_messages_are_found_among_many_calls() -> None:
    calls = [{"type": "tool_use", "id": name, "name": "add", "input": {}} for name in names("toolu_")]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "2"} for name in reversed(names("toolu_"))]
    read = anthropic(
        {"role": "user", "content": "?"}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}
    )
    assert len(read.messages) == MANY + 2
    assert Counted.comparisons <= 20 * MANY


def test_messages_of_one_side_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[int] = []
    turn = anthropic_history.Turn

    def counting(role: str, place: int, blocks: Any) -> Any:
        put.append(len(blocks))
        return turn(role, place, blocks)

    monkeypatch.setattr(anthropic_history, "Turn", counting)
    assert len(anthropic(*[{"role": "user", "content": "?"}] * LONG).messages) == LONG
    assert sum(put) == 2 * LONG  # each block into its turn, and into the row of turns


def test_messages_hold_a_limited_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_history, "MAX_BLOCKS", 4)
    text = {"type": "text", "text": "?"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text]}
    said = [{"role": "user", "content": [text]}, {"role": "assistant", "content": [call]}]
    assert anthropic(*said, {"role": "user", "content": [result]})
    with pytest.raises(BadRequest, match=r"messages: content should have at most 4 blocks in all, not 5"):
        anthropic(*said, {"role": "user", "content": [result, text]})


@pytest.mark.parametrize(("by_id", "name"), [(True, "f"), (False, "f"), (False, "")])
def test_answers_of_gemini_are_found_among_many_calls(by_id: bool, name: str) -> None:
    """By their ids, by the names of their functions, or by nothing but their order."""
    called, answered = names("c"), names("c")[::-1]
    calls = [{"name": f"g{number}" if not name else "f", "id": called[number]} for number in range(MANY)]
    answers = [{"name": Counted("f"), "response": {}} | ({"id": call_id} if by_id else {}) for call_id in answered]
    contents = [
        {"parts": [{"text": "?"}]},
        {"role": "model", "parts": [{"functionCall": call} for call in calls]},
        {"parts": [{"functionResponse": answer} for answer in answers]},
    ]
    read = gemini.read_request({"contents": contents}, "m").request.messages[2:]
    expected = answered if by_id else called
    assert [str(message.call_id) for message in read] == [str(call_id) for call_id in expected]
    assert Counted.comparisons <= 20 * MANY


def test_an_answer_that_many_items_refer_to_is_recalled_once() -> None:
    recalled: list[str] = []
    ids = {digit * 24: [item_id("msg", digit * 24, place) for place in range(MANY)] for digit in "ab"}
    answers = {f"resp_{answer}": [{"id": name, "role": "assistant", "content": "So."} for name in ids[answer]] for answer in ids}

    def recall(answer_id: str) -> Any:
        recalled.append(answer_id)
        return answers[answer_id]

    referred = [{"type": "item_reference", "id": name} for pair in zip(*ids.values(), strict=True) for name in pair]
    read = responses.read_request({"model": "m", "input": [*referred, {"role": "user", "content": "?"}]}, recall)
    assert len(read.items) == 2 * MANY + 1
    assert recalled == list(answers)

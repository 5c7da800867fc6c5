"""The golden values that `make test` compares; `python -m tests.golden` compares all of them, in some minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.golden import cases, imported


@pytest.mark.thorough
@pytest.mark.parametrize("case", [*cases.FEW, *(pytest.param(case, marks=pytest.mark.slow) for case in cases.DIGESTS)])
def test_equal_input_gives_the_digests_that_it_gave(case: str) -> None:
    assert cases.differences("digests", case, cases.digest_case(case)) == []


@pytest.mark.parametrize("design", cases.LOOPS)
def test_each_value_of_each_option_asks_as_it_asked(design: str) -> None:
    assert cases.differences("prompts", design, cases.prompt_case(design)) == []


@pytest.mark.parametrize("design", cases.READABLE)
def test_the_prompts_that_can_be_read_are_the_golden_ones(design: str) -> None:
    text = (Path(cases.FOLDER) / "prompts" / f"{design}.txt").read_text("utf-8")
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == cases.kept("prompts", design)["text"]


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases.QUICK_VERDICTS)
def test_a_documented_run_has_the_verdict_that_it_had(case: str) -> None:
    assert cases.differences("verdicts", case, cases.verdict_case(case)) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in (*cases.VERDICTS, *cases.COMMANDS) if case not in cases.QUICK_VERDICTS])
def test_a_longer_documented_run_has_the_verdict_that_it_had(case: str) -> None:
    assert cases.differences("verdicts", case, cases.verdict_case(case)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("names", [cases.QUICK_GATES, pytest.param(tuple(cases.GATES), marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_gate_ends_its_documented_cases_as_it_did(names: tuple[str, ...]) -> None:
    assert {name: lines for name, made in cases.gate_cases(names) if (lines := cases.differences("gates", name, made))} == {}


@pytest.mark.parametrize("case", imported.IMPORTS)
def test_a_document_of_another_tool_is_read_as_it_was(case: str) -> None:
    assert cases.differences("imports", case, imported.import_case(case)) == []

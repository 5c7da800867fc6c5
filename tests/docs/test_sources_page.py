"""What benchmarks/sources.py counts in published replies, and that docs/sources.md and the profiles hold what it wrote."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pages import block
from whichloop.models.profiles import built_in_profiles, load_profile

ROOT = Path(__file__).parents[2]
CATEGORIES = ("simple", "multiple_function", "parallel_function", "parallel_multiple_function")
ADD = {
    "name": "math.add",
    "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
}
PRINT = {"name": "print_it", "parameters": {"type": "dict", "properties": {"text": {"type": "string"}}, "required": ["text"]}}
WANTED = [{"math.add": {"a": [1], "b": [2]}}]


class Benchmark(NamedTuple):
    replies: Any
    sources: Any


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        modules: list[ModuleType] = [importlib.import_module(name) for name in ("published_replies", "sources")]
    return Benchmark(*modules)


@pytest.fixture(scope="module")
def question(benchmark: Benchmark) -> Any:
    return benchmark.replies.Question((ADD, PRINT), WANTED)


NATIVE = {
    '{"a": 1, "b": 2}': set(),
    '{"a": 1, "b": 2': {"wire.truncated"},
    '{"a": 1, "b": 2}{"a": 1, "b": 2}': {"wire.duplicated"},
    "a: 1, b: 2}": {"wire.malformed"},
    '{"a": 1}': {"decision.missing_argument"},
    '{"a": 1, "b": 2, "c": 3}': {"decision.extra_argument"},
    '{"a": 1, "b": "two"}': {"decision.wrong_type"},
    '{"a": 1, "b": 3}': {"decision.wrong_value"},
}


@pytest.mark.parametrize(("arguments", "kinds"), NATIVE.items())
def test_what_is_wrong_with_a_native_call(benchmark: Benchmark, question: Any, arguments: str, kinds: set[str]) -> None:
    assert benchmark.replies.kinds_of([{"math_add": arguments}], question, "native") == kinds


TEXT = {
    "[math.add(a=1, b=2)]": set(),
    "  math.add(a=1, b=2)": set(),
    "": {"wire.empty"},
    "I cannot do that.": {"decision.no_tool"},
    "[]": {"decision.no_tool"},
    "```python\n[math.add(a=1, b=2)]\n```": {"wire.fenced"},
    "Here: [math.add(a=1, b=2)] is it.": {"prose round a call"},
    "```json\n[{'name': 'math.add', 'arguments': {'a': 1}}]\n```": {"wire.malformed"},
    "[math.add(a=1, b=2": {"wire.truncated"},
    "[math.subtract(a=1, b=2)]": {"decision.unknown_tool"},
    "[print_it(text='3')]": {"another tool"},
    "[math.add(a=1, b=2), print_it(text='3')]": {"too many calls"},
}


@pytest.mark.parametrize(("text", "kinds"), TEXT.items())
def test_what_is_wrong_with_calls_in_text(benchmark: Benchmark, question: Any, text: str, kinds: set[str]) -> None:
    assert benchmark.replies.kinds_of(text, question, "text") == kinds


@given(text=st.text(alphabet="[]{}()'\"=,:.` \nmath.add1ab", max_size=60))
def test_any_text_has_some_kinds_and_never_a_crash(benchmark: Benchmark, question: Any, text: str) -> None:
    replies = benchmark.replies
    known = {*replies.UNREADABLE, "wire.fenced", *replies.UNCOVERED, *replies._BFCL_DECISIONS}
    assert replies.kinds_of(text, question, "text") <= known


def write_bfcl(folder: Path, results: list[Any]) -> tuple[Path, Path]:
    """Write one question for each result in a category, and a model's folder of them. Return questions and folder."""
    questions, model = folder / "questions", folder / "2024-08-11" / "result" / "gpt-x-FC"
    (questions / "possible_answer").mkdir(parents=True)
    model.mkdir(parents=True)
    for category in CATEGORIES:
        name = f"gorilla_openfunctions_v1_test_{category}"
        rows = [{"id": f"{category}_{n}", "result": result} for n, result in enumerate(results)]
        put = {
            questions / f"{name}.json": [{"id": row["id"], "question": "1 + 2?", "function": ADD} for row in rows],
            questions / "possible_answer" / f"{name}.json": [{"id": row["id"], "ground_truth": WANTED[0]} for row in rows],
            model / f"{name}_result.json": rows,
        }
        for path, lines in put.items():
            path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return questions, model


def test_a_models_folder_is_counted_and_its_failed_requests_are_left_out(benchmark: Benchmark, tmp_path: Path) -> None:
    good, cut = [{"math_add": '{"a": 1, "b": 2}'}], [{"math_add": '{"a": 1'}]
    questions, model = write_bfcl(tmp_path, [good, cut, "Error occurred: 500", "No tool fits."])
    found = benchmark.replies.read_bfcl(model, benchmark.replies.read_questions(questions))
    assert (found.source, found.model, found.form, found.replies, found.failed) == ("BFCL 2024-08-11", "gpt-x-FC", "native", 12, 4)
    assert {kind: count for kind, count in found.counts.items() if count} == {"wire.truncated": 4, "decision.no_tool": 4}
    assert found.accuracy == (0.25, None)


def test_trajectories_are_counted_reply_by_reply(benchmark: Benchmark, tmp_path: Path) -> None:
    def turn(*arguments: str) -> dict[str, Any]:
        return {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}} for text in arguments]}

    failed = turn('{"a": 9}')
    failed["tool_calls"][0]["id"] = "c9"
    retried = [failed, {"role": "tool", "tool_call_id": "c9", "content": "Error: busy"}, turn('{"a": 9}')]
    again = [turn('{"a": 1}'), turn('{"a": 1}'), turn('{"a": '), {"role": "assistant"}]
    trajectory = [{"role": "user", "content": "Hi"}, *again, *retried]
    path = tmp_path / "gpt-y.json"
    path.write_text(json.dumps([{"traj": trajectory}, {"traj": [turn('{"a": 1}')]}]), encoding="utf-8")
    found = benchmark.replies.read_tau_bench(path)
    assert found.replies == 6
    assert {kind: count for kind, count in found.counts.items() if count} == {"wire.truncated": 1, "decision.repeated_call": 1}


@pytest.mark.parametrize("content", ["[1]", "{}", "no JSON", '[{"traj": 3}]'])
def test_a_file_of_another_format_is_refused_in_one_line(benchmark: Benchmark, tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    questions, _ = write_bfcl(tmp_path, [])
    with pytest.raises(SystemExit, match=r"^sources.py: .*x.json: no trajectories of tau-bench"):
        benchmark.sources.main(["--questions", str(questions), str(path)])
    with pytest.raises(SystemExit, match=r"^sources.py: .*x.json: no trajectories of tau-bench"):
        benchmark.sources.main([str(path)])


def test_a_folder_of_bfcls_results_takes_the_questions(benchmark: Benchmark, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        benchmark.sources.main([str(tmp_path)])
    assert "is a folder of BFCL's results, which takes the questions: --questions FOLDER" in capsys.readouterr().err


def test_the_page_and_the_stress_profiles_agree(benchmark: Benchmark) -> None:
    table = block(benchmark.sources.PAGE, "shares")
    for name in built_in_profiles():
        if name not in benchmark.sources.MEASURED:
            assert f"| `{name}` |" in table
            assert load_profile(name).evidence in table


def test_the_measured_profiles_are_what_the_page_makes_of_them(benchmark: Benchmark) -> None:
    """Its shares, in tenths of a percent, give back the counts, and these the files to the letter."""
    sets = benchmark.sources.read_page(block(benchmark.sources.PAGE, "shares"))
    made = benchmark.sources.measured_files(sets)
    assert made.keys() == benchmark.sources.MEASURED
    for name, text in made.items():
        assert (benchmark.sources.PROFILES / f"{name}.toml").read_text("utf-8") == text


def test_the_table_of_what_was_read_back_is_the_page_s(benchmark: Benchmark) -> None:
    table = block(benchmark.sources.PAGE, "shares")
    sets = benchmark.sources.read_page(table)
    assert {replies.form for replies in sets} == {"native", "text"}
    for replies in sets:
        cells = [benchmark.sources._cell(replies, kind) for kind in replies.counts]
        (row,) = [line for line in table.splitlines() if line.startswith(f"| {replies.model}, ")]
        for cell in cells:
            assert f"| {cell} |" in row


def test_the_median_is_what_half_of_the_models_stay_below(benchmark: Benchmark) -> None:
    counts = {"a": (0, 90), "b": (0, 10), "c": (40, 20)}
    sets = [
        benchmark.replies.PublishedReplies("S", model, "text", 100, {"wire.fenced": fenced, "wire.malformed": cut})
        for model, (fenced, cut) in counts.items()
    ]
    text = benchmark.sources.fitted_toml("text", sets, benchmark.sources.MEDIAN)
    assert '"wire.malformed" = 0.2\n' in text
    assert 'wire.fenced" =' not in text
    assert "Most models never showed these, which have no rate: wire.fenced." in text
    assert '"wire.fenced" = 0.13333\n' in benchmark.sources.fitted_toml("text", sets)


def test_another_page_is_refused(benchmark: Benchmark, capsys: Any) -> None:
    with pytest.raises(ValueError, match="no table of replies with native calls"):
        benchmark.sources.read_page("nothing")
    with pytest.raises(SystemExit):
        benchmark.sources.main([])
    assert "give the files of published replies, or --from-page" in capsys.readouterr().err

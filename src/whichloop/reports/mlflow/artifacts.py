"""What MLflow shows of an optimization: programs as files, the verdict as a note, the ranking as a table, prompts as versions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mlflow.entities.model_registry import PromptVersion
from mlflow.prompt.constants import PROMPT_EXPERIMENT_IDS_TAG_KEY

from whichloop.experiments.optimize.candidates import Candidate
from whichloop.metrics.statistics import Interval
from whichloop.protocol import Prompt, render_value
from whichloop.protocol.digest import seal_document, sha256
from whichloop.protocol.names import without_process
from whichloop.protocol.program import ABOUT
from whichloop.protocol.redact import redact
from whichloop.text.doc import markdown_cell, markdown_literal

from .board import DesignRow
from .store import MAX_NAME, Store, clean, interval_metrics


def safe_json(value: Any) -> str:
    """Return a value as JSON, without secrets and without characters that UTF-8 lacks: models may write either."""
    return redact(render_value(json.dumps(value, indent=2, ensure_ascii=False))) + "\n"


def program_file(design: DesignRow, candidate: Candidate) -> str:
    """Return a candidate's program as a file that `--loop NAME@FILE` takes, without secrets."""
    state: dict[str, Any] = {
        name: {"signature": {"instructions": prompt.instructions}, "demos": [dict(demo) for demo in prompt.demos]}
        for name, prompt in candidate.program.items()
    }
    about = {"loop": design.about.loop, "options": design.about.options, "candidate": candidate.number}
    return seal_document(safe_json({**state, ABOUT: about}).encode("utf-8")).decode("utf-8")


def interval(written: Mapping[str, Any] | None) -> Interval | None:
    """Return the interval that `Interval.as_dict` wrote; None if there is none."""
    return None if written is None else Interval.from_dict(written)


def note(result: Mapping[str, Any]) -> str:
    """Return the verdict in a few lines of Markdown."""
    optimizer, state = without_process(result["optimizer"]["spec"]), result["state"]
    lines = [f"Optimized with `{optimizer}`.{f' {state}.' if state else ''}", ""]
    if result["invalid"]:
        lines.append("**Invalid: no verdict of this run holds.**")
    lines += [_gain(item) for item in result["designs"]]
    sentences = [item[name] for name in ("advice", "cut_off") for item in result["designs"] if item[name]]
    if items := [f"- {markdown_cell(sentence)}" for sentence in sentences]:
        lines += ["", *items]
    ranking = result["ranking"]
    if ranking is not None and ranking["highest_before"] is not None:
        before, after = ranking["highest_before"], ranking["highest_after"]
        another = f"`{before}` is the highest before, `{after}` after ({ranking['change']})."
        lines += ["", f"`{before}` is the highest before and after." if before == after else another]
    return "\n".join(lines)


def _gain(item: Mapping[str, Any]) -> str:
    test = item["test"]
    if test is None or test["difference"] is None:
        return f"- `{item['design']}`: {item['status']}, not tested"
    before, after, gain = test["before"]["value"], test["after"]["value"], test["difference"]
    interval = f"{gain['value']:+z.3f} [{gain['low']:+z.3f}, {gain['high']:+z.3f}]"
    return f"- `{item['design']}`: {before:.3f} → {after:.3f}, {interval}, **{test['verdict']}**, p {test['p_holm']:.3g} (Holm)"


_RANKED = ("design", "place_before", "before", "before_low", "before_high", "place_after", "after", "after_low", "after_high")


def ranking_table(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ranking in the form of MLflow's tables: a row per design, the most accurate after optimization first."""
    ranking = result["ranking"] or {"before": [], "after": []}
    before = {item["design"]: item for item in ranking["before"]}
    after = {item["design"]: item for item in ranking["after"]}
    ordered = [*after, *(design for design in before if design not in after)]
    rows = [{"design": design} | _place("before", before.get(design)) | _place("after", after.get(design)) for design in ordered]
    return {"columns": list(_RANKED), "data": [[row.get(name) for name in _RANKED] for row in rows]}


def _place(when: str, item: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if item is None else {f"place_{when}": item["place"], **interval_metrics(when, interval(item["accuracy"]))}


MAX_TEMPLATE = 100_000
"""Characters that MLflow takes (mlflow/utils/validation.py)."""
_MARKS = re.compile(r"\{(?=[{%#\r]|\Z)|\r")
"""What begins a Jinja mark, alone or with the text that follows, and the one character that Jinja changes."""
_JINJA = "{% if true %}{% endif %}"
"""Prints nothing, but makes MLflow treat a text as Jinja; at the end of a text it also keeps the last line break."""


def as_template(text: str) -> str:
    """Return a template without variables that formats to this text."""
    if not re.search(r"\{[{%#]", text):
        return text
    return _MARKS.sub(lambda mark: '{{ "{" }}' if mark[0] == "{" else '{{ "\\r" }}', text) + _JINJA


def prompt_text(prompt: Prompt) -> str:
    """Return the instructions, and the demonstrations field by field, without secrets.

    MLflow shows a prompt as Markdown, in which lines of a demonstration would flow together: each is a literal block.
    """
    demos = ("\n".join(f"{name}: {render_value(value)}" for name, value in demo.items()) for demo in prompt.demos)
    examples = (f"Example {number}:\n\n{markdown_literal(text)}" for number, text in enumerate(demos, 1))
    return redact("\n\n".join([prompt.instructions, *examples]))


def prompt_name(design: str, predictor: str) -> str:
    """Return `whichloop.react_extract.react`; a hash replaces characters that MLflow refuses in a name."""
    return ".".join(["whichloop", plain_name(design), plain_name(predictor)])


def plain_name(text: str) -> str:
    """Return a text of letters, digits, `_` and `-`: the text itself, or what is left of it and a hash."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", text):
        return text
    return f"{re.sub(r'[^A-Za-z0-9_]+', '-', text)[:80].strip('-')}-{sha256(text)[:8]}"


def register(store: Store, name: str, prompt: Prompt, tags: Mapping[str, str]) -> PromptVersion | None:
    """Return the version of this text for `whichloop.digest`, made if missing; None for a prompt too long for MLflow."""
    template = as_template(clean(prompt_text(prompt), MAX_TEMPLATE + 1))
    if len(template) > MAX_TEMPLATE:
        return None
    tags = {**tags, "whichloop.template": sha256(template)}
    _offer(store, name)
    wanted = " and ".join(f"tag.`{key}` = '{tags[key]}'" for key in ("whichloop.digest", "whichloop.template"))
    versions = store.client.search_model_versions(f"name = '{name}' and {_IS_PROMPT} and {wanted}", max_results=1)
    if versions:
        return store.client.get_prompt_version(name, versions[0].version)
    return store.client.create_prompt_version(name, template, tags={key: clean(value, MAX_NAME) for key, value in tags.items()})


_IS_PROMPT = "tag.`mlflow.prompt.is_prompt` = 'true'"  # without it, MLflow leaves prompts out


def _offer(store: Store, name: str) -> None:
    """Make the prompt if it is missing, and list it among the prompts of the experiment.

    `register_prompt` would do both for the experiment of MLflow's global address.
    """
    existing = store.client.get_prompt(name)
    if existing is None:
        store.client.create_prompt(name, tags={PROMPT_EXPERIMENT_IDS_TAG_KEY: f",{store.experiment_id},"})
        return
    experiments = [number for number in existing.tags.get(PROMPT_EXPERIMENT_IDS_TAG_KEY, "").split(",") if number]
    if store.experiment_id not in experiments:
        together = ",".join([*experiments, store.experiment_id])
        store.client.set_prompt_tag(name, PROMPT_EXPERIMENT_IDS_TAG_KEY, f",{together},")

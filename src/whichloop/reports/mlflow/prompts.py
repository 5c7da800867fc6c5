"""Predictors' prompts in MLflow's prompt registry: a prompt per design and predictor, a version per program.

MLflow reads `{{name}}` as a variable and `{% … %}` as Jinja. What models and people wrote is neither: a version formats to the very
text that was registered, and has no variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlflow.entities.model_registry import PromptVersion
from mlflow.prompt.constants import PROMPT_EXPERIMENT_IDS_TAG_KEY

from whichloop.protocol import Prompt, render_value
from whichloop.protocol.digest import sha256
from whichloop.protocol.redact import redact
from whichloop.text.table import markdown_block

from .store import MAX_NAME, Store, clean

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
    examples = (f"Example {number}:\n\n{markdown_block(text)}" for number, text in enumerate(demos, 1))
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

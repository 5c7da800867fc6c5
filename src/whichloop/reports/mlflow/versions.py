"""Versions of loops as MLflow's models: one per loop, configuration, code and program, shared by all runs that it takes part in.

A model holds no code and nothing to unpickle: its parameters and its files describe it as data.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.entities import LoggedModel
from mlflow.models.model import MLMODEL_FILE_NAME
from mlflow.models.utils import get_external_mlflow_model_spec
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_IS_EXTERNAL

from whichloop.experiments.optimize.manifest import DesignEntry
from whichloop.protocol import render_value
from whichloop.protocol.digest import digest
from whichloop.protocol.names import Spec
from whichloop.protocol.redact import redact
from whichloop.runs.manifest import ArmEntry

from .artifacts import plain_name, safe_json
from .store import MAX_TAG, Store, clean, params

VERSION, CODE = "whichloop.version", "whichloop.loop_code"


@dataclass(frozen=True, slots=True)
class Version:
    """What a loop consists of, taken from an arm's or a design's part of a manifest."""

    loop: str
    options: Mapping[str, Any]
    """The options that the user typed."""
    configuration: str = ""
    """The loop's whole configuration."""
    code: str = ""
    """Digest of the code."""
    program: str = ""
    """Digest of the optimized program; empty for the loop's own prompts."""

    @classmethod
    def of(cls, entry: ArmEntry | DesignEntry, program: str | None = None) -> Version:
        """Return the version of an entry. `program`: digest of the program, if `entry` does not name the right one."""
        program_digest = entry.program or "" if program is None else program
        return cls(entry.loop, entry.options, entry.configuration, entry.code, program_digest)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the configuration field by field, as far as its text can be taken apart."""
        return config_fields(self.configuration)

    @property
    def digest(self) -> str:
        """Return the sha256 of the version; typed options are part of it only if the configuration lacks them."""
        typed = self.options if "configuration" in self.fields else {}
        return digest([self.loop, typed, self.configuration, self.code, self.program])

    @property
    def name(self) -> str:
        """Return `bare-1c2d3e4f`: the loop and the beginning of the digest."""
        return f"{plain_name(self.loop)}-{self.digest[:8]}"

    @property
    def note(self) -> str:
        """Return the text of the model's page, in Markdown."""
        program = f", with the prompts of program {self.program[:8]}" if self.program else ""
        return f"`{Spec(self.loop, self.options)}`{program}"


def find_versions(store: Store, versions: Collection[str]) -> dict[str, LoggedModel]:
    """Return the models of the experiment that hold these versions, by digest; the oldest one of several."""
    if not versions:
        return {}
    among = ", ".join(f"'{version}'" for version in sorted(versions))
    models: dict[str, LoggedModel] = {}
    token = None
    while token != "":
        page = store.client.search_logged_models(
            [store.experiment_id], f"tags.`{VERSION}` IN ({among})", order_by=_NEWEST_FIRST, page_token=token
        )
        models |= {model.tags[VERSION]: model for model in page}
        token = page.token or ""
    return models


_NEWEST_FIRST = [{"field_name": "creation_timestamp", "ascending": False}]


def log_version(store: Store, version: Version, existing: LoggedModel | None, run_id: str) -> str:
    """Return the id of the model of a version, made if missing. `run_id`: the run in which the version first occurs."""
    model = existing
    if model is None:
        values = {"loop": version.loop, **version.fields}
        tags = {
            VERSION: version.digest,
            CODE: version.code,
            "whichloop.program": version.program,
            "mlflow.note.content": version.note,
        }
        model = new_model(store, version.name, run_id, tags, values)
    if model.status != "READY":
        parts = {"loop": version.loop, "options": dict(version.options), **version.fields}
        finish_model(store, model, {"loop.json": safe_json(parts | {"code": version.code, "program": version.program})})
    model_id: str = model.model_id
    return model_id


def new_model(store: Store, name: str, run_id: str, tags: Mapping[str, str], values: Mapping[str, Any]) -> LoggedModel:
    """Make a model as create_external_model does, without the global address that it would use."""
    tag_texts = {key: clean(redact(value), MAX_TAG) for key, value in tags.items() if value}
    tag_texts[MLFLOW_MODEL_IS_EXTERNAL] = "true"
    parameters = params({name: redact(render_value(value)) for name, value in values.items()})
    return store.client.create_logged_model(store.experiment_id, name, run_id, tag_texts, parameters, "agent")


def finish_model(store: Store, model: LoggedModel, files: Mapping[str, str]) -> None:
    """Upload a model's files, by name, and mark it as ready."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        get_external_mlflow_model_spec(model).save(str(folder / MLMODEL_FILE_NAME))
        store.client.log_model_artifacts(model.model_id, str(folder))
    store.client.finalize_logged_model(model.model_id, "READY")


# --- configurations ---


def config_fields(text: str) -> dict[str, Any]:
    """Return the fields of a loop's `repr` as `config.<field>`; a text that is not a call with named values stays whole."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return {"configuration": text}
    if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
        return {"configuration": text}
    return {f"config.{item.arg}": _literal(item.value) for item in call.keywords}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)

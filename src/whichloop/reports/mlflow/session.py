"""An optimization's runs in one MLflow store: a parent run, below it one run per design, below that one per candidate.

Runs, prompts and models are found again by their tags, so that a resumed optimization goes on with them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow.entities import LoggedModel, LoggedModelOutput, Metric, Run, RunTag
from mlflow.tracing.constant import TraceTagKey
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from whichloop.experiments.compare.results import results
from whichloop.experiments.optimize.candidates import Candidate, mean_of
from whichloop.experiments.optimize.manifest import CANDIDATES, PROGRAM
from whichloop.protocol import render_value
from whichloop.protocol.digest import open_document, seal_document
from whichloop.protocol.files import read_bounded
from whichloop.protocol.names import parse_spec
from whichloop.protocol.redact import redact
from whichloop.reports.html.page import optimization_title
from whichloop.runs.folders import KIND, TEST
from whichloop.runs.store.files import MANIFEST

from .artifacts import interval, note, plain_name, program_file, prompt_name, ranking_table, register, safe_json
from .board import CandidateRow, DesignRow, SearchBoard
from .comparison import log_comparison
from .notes import REPORT
from .store import MAX_NAME, MAX_TAG, RunEntry, Store, clean, interval_metrics, metric_key, numbers, params, run_name
from .versions import CODE, VERSION, Version, find_versions, finish_model, new_model

RANKING = "ranking.json"
RESULT = "optimization.json"
BEST = "whichloop.best"
DESIGN = "whichloop.design"
CANDIDATE = "whichloop.candidate"

Points = Iterable[tuple[int, Mapping[str, float | None]]]
"""Steps, each with its metrics."""


@dataclass(slots=True)
class Logged:
    """An MLflow run that exists, and what it holds."""

    run_id: str
    step: int
    """The last step of its metrics."""
    metrics: dict[str, float]
    tags: dict[str, str]
    status: str
    """RUNNING, FINISHED, FAILED or KILLED."""
    children: dict[str, Run] = field(default_factory=dict)
    """Number of a candidate → its run in an earlier session."""


class Session:
    """Brings one store up to date with the board; a store that has failed gets a new one."""

    def __init__(self, store: Store, board: SearchBoard) -> None:
        self.store = store
        self.client = store.client
        self.board = board
        self.name = run_name(board.folder)
        existing = store.parent(self.name, KIND)
        self.parent = self._put(existing, self._entry(optimization_title(board.manifest), KIND, self._setting()))
        self.parent_id = self.parent.run_id
        self._reopened(self.parent)
        self.known = store.children(self.parent_id, DESIGN)
        """The designs' runs of an earlier session."""
        self.designs: dict[str, Logged] = {}
        self.candidates: dict[tuple[str, int], Logged] = {}

    def write(self) -> None:
        """Write what has changed. Raises whatever MLflow, its database and the network raise."""
        for design in self.board.designs.values():
            if design.changed and design.rows:
                run = self._design(design)
                for row in design.rows.values():
                    if row.shown and row.changed:
                        self._write_candidate(design, row)
                        row.changed = False
                self._log(run, design.points, {"whichloop.candidates": design.shown_in_words})
                if design.best is not None:
                    best = design.rows[design.best].candidate
                    self._log(self.parent, (), {metric_key(f"best.{design.design}"): f"candidate {best.number}, {best.digest}"})
                design.changed = False
            if design.ended is not None and not design.settled:
                self._settle(design)
                design.settled = True
        if self.board.result is not None and self.parent.status == "RUNNING":
            self._write_result(self.board.result)
        if self.board.closed and self.parent.status == "RUNNING":
            self._leave()

    # --- a design and its candidates ---

    def _design(self, design: DesignRow) -> Logged:
        """Return a design's run, made if missing."""
        logged = self.designs.get(design.design)
        if logged is None:
            about = design.about
            values = {
                "design": design.design,
                "loop": about.loop,
                "program": about.program,
            }
            values |= {f"option.{name}": value for name, value in about.options.items()}
            tags = {DESIGN: design.design, "mlflow.parentRunId": self.parent_id, CODE: about.code}
            entry = self._entry(design.design, "design", values, tags)
            existing = self.known.get(entry.tags[DESIGN])
            logged = self._put(existing, entry, "calls")
            if existing is not None:
                logged.children = self.store.children(logged.run_id, CANDIDATE)
            if design.ended is None:
                self._reopened(logged)
            self.designs[design.design] = logged
        return logged

    def _write_candidate(self, design: DesignRow, row: CandidateRow) -> None:
        candidate, best = row.candidate, {BEST: str(design.best == row.candidate.number).lower()}
        logged = self.candidates.get((design.design, candidate.number))
        if logged is None:
            above = self._design(design)
            values = {"number": candidate.number, "digest": candidate.digest, "loop": design.about.loop, "design": design.design}
            found_by = {CANDIDATE: str(candidate.number), "mlflow.parentRunId": above.run_id}
            entry = self._entry(
                f"candidate {candidate.number}", "candidate", values, {**found_by, **best, "whichloop.digest": candidate.digest}
            )
            existing = above.children.get(str(candidate.number))
            if existing is None:
                entry = replace(entry, metrics=numbers(row.metrics), step=row.rollouts)
            logged = self._put(existing, entry, "rollouts")
            self.client.log_text(logged.run_id, program_file(design, candidate), "program.json")
            self.candidates[design.design, candidate.number] = logged
        self._log(logged, [(row.rollouts, row.metrics)], best)

    # --- a design's end ---

    def _settle(self, design: DesignRow) -> None:
        """Log the program that was kept, as file, prompts and model; repeating this adds nothing."""
        end, run = design.ended, self._design(design)
        assert end is not None
        first_candidate, kept_candidate = design.rows[0].candidate, design.rows[end.chosen].candidate
        links: list[dict[str, str]] = []
        models = {}
        for digest, candidate in {first_candidate.digest: first_candidate, kept_candidate.digest: kept_candidate}.items():
            linked = self._prompts(design, candidate, run)
            models[digest] = self._model(design, candidate, run, linked)
            links += linked
        for name in (PROGRAM, CANDIDATES):
            path = self.board.folder / design.about.folder / name
            if path.is_file():
                text = redact(open_document(read_bounded(path)).decode("utf-8"))
                self.client.log_text(run.run_id, seal_document(text.encode("utf-8")).decode("utf-8"), name)
        metrics = {
            "dev_before": mean_of(end.before),
            "dev_after": mean_of(end.after),
            "candidates": end.candidates,
            "evaluation.calls": end.evaluation.calls,
            "evaluation.tokens": end.evaluation.tokens,
            "evaluation.cost_usd": end.evaluation.dollars,
        }
        tags = {
            "whichloop.status": end.status,
            "whichloop.reason": end.reason,
            "whichloop.digest": end.digest,
            "whichloop.chosen": str(end.chosen),
            "mlflow.note.content": "\n".join(f"- {remark}" for remark in (end.reason, *end.warnings) if remark),
            # link_prompt_version_to_run, which would do this, asks MLflow's global address.
            TraceTagKey.LINKED_PROMPTS: json.dumps(links),
        }
        models_of = {"dev_before": models[first_candidate.digest], "dev_after": models[kept_candidate.digest]}
        self._log(run, [(end.search.calls, metrics)], tags, models_of)
        self._end_design(design, "FAILED" if end.status == "failed" else "FINISHED")

    def _end_design(self, design: DesignRow, status: str) -> None:
        """End a design's run and those of its candidates, of this session and of earlier ones."""
        run = self._design(design)
        of_this_session = {str(number): logged for (name, number), logged in self.candidates.items() if name == design.design}
        earlier = {number: Logged(logged.info.run_id, 0, {}, {}, logged.info.status) for number, logged in run.children.items()}
        for candidate in (earlier | of_this_session).values():
            self._end(candidate, "FINISHED" if status == "FAILED" else status)
        self._end(run, status)

    def _prompts(self, design: DesignRow, candidate: Candidate, run: Logged) -> list[dict[str, str]]:
        """Register a program's prompts, and return their names and versions in the form of MLflow's links."""
        tags = {**self._origin(candidate), DESIGN: design.design}
        registered = {
            name: register(self.store, prompt_name(design.design, name), prompt, tags) for name, prompt in candidate.program.items()
        }
        if too_long := [name for name, version in registered.items() if version is None]:
            self._log(run, (), {"whichloop.not_registered": f"too long for MLflow's prompt registry: {', '.join(too_long)}"})
        return [{"name": version.name, "version": str(version.version)} for version in registered.values() if version is not None]

    def _model(self, design: DesignRow, candidate: Candidate, run: Logged, linked: Sequence[Mapping[str, str]]) -> str:
        """Return the id of a program's model, which holds the program as data, not as a pickle."""
        client, version = self.client, _version(design, candidate.digest)
        logged_model = self._models(design, run).get(candidate.digest)
        links = {TraceTagKey.LINKED_PROMPTS: json.dumps(linked)}
        if logged_model is None:
            values = {"loop": design.about.loop, "design": design.design, "number": candidate.number}
            name = plain_name(design.design) + ("" if candidate.number == 0 else "-optimized")
            tags = {**self._origin(candidate), VERSION: version.digest, **links}
            logged_model = new_model(self.store, name, run.run_id, tags, {**values, **version.fields, **self._setting()})
        elif TraceTagKey.LINKED_PROMPTS not in logged_model.tags:  # a comparison has made it
            client.set_logged_model_tags(logged_model.model_id, _cleaned(links))
        outputs = client.get_run(run.run_id).outputs
        if logged_model.model_id not in {output.model_id for output in (outputs.model_outputs if outputs else ())}:
            client.log_outputs(run.run_id, [LoggedModelOutput(logged_model.model_id, 0)])
        if logged_model.status != "READY":
            finish_model(self.store, logged_model, {"program.json": program_file(design, candidate)})
        model_id: str = logged_model.model_id
        return model_id

    def _origin(self, candidate: Candidate) -> dict[str, str]:
        """Return the tags of a prompt's version and of a model."""
        role = "own" if candidate.number == 0 else "optimized"
        return {"whichloop.run": self.name, "whichloop.digest": candidate.digest, "whichloop.role": role}

    def _models(self, design: DesignRow, run: Logged) -> dict[str, LoggedModel]:
        """Return the models of a design's programs, by digest: those of its run, or those that other runs made."""
        own = self.client.search_logged_models([self.store.experiment_id], f"source_run_id = '{run.run_id}'")
        own_models = {model.tags["whichloop.digest"]: model for model in own if "whichloop.digest" in model.tags}
        ends = () if design.ended is None else (design.about.program, design.ended.digest)
        versions = {_version(design, digest).digest: digest for digest in ends}
        others = find_versions(self.store, versions)
        return {versions[version]: model for version, model in others.items()} | own_models

    # --- the end ---

    def _write_result(self, result: Mapping[str, Any]) -> None:
        test = self.board.folder / TEST
        if (test / MANIFEST).is_file():
            log_comparison(self.store, results(test), above=self.parent_id)
        gains: dict[str, float | None] = {}
        for item in result["designs"]:
            if item["test"] is not None:
                self._write_test(self.board.designs[item["design"]], item["test"])
                gains |= _metrics(f"gain.{item['design']}", item["test"]["difference"])
        self._log(self.parent, [(0, gains)], {"mlflow.note.content": note(result)})
        self._log_table(ranking_table(result), RANKING)
        self.client.log_text(self.parent_id, safe_json(result), RESULT)
        self.client.log_text(self.parent_id, self.board.page, REPORT)
        self._end_parent("FINISHED" if result["complete"] else "KILLED")

    def _write_test(self, design: DesignRow, test: Mapping[str, Any]) -> None:
        run, own = self._design(design), design.about.program
        model_ids = {digest: model.model_id for digest, model in self._models(design, run).items()}
        before, after = _metrics("test_before", test["before"]), _metrics("test_after", test["after"])
        final_digest = own if design.ended is None else design.ended.digest
        models = {**dict.fromkeys(before, model_ids.get(own, "")), **dict.fromkeys(after, model_ids.get(final_digest, ""))}
        metrics = {
            **before,
            **after,
            **_metrics("gain", test["difference"]),
            **_metrics("gain_over_templates", test["over_templates"]),
            "gain_p_holm": test["p_holm"],
        }
        self._log(run, [(design.search.calls, metrics)], {"whichloop.verdict": str(test["verdict"])}, models)

    def _log_table(self, table: Mapping[str, Any], name: str) -> None:
        """Log a table as MLflow's log_table does, which would append the rows to those of an earlier session."""
        self.client.log_text(self.parent_id, safe_json(table), name)
        self._log(self.parent, (), {MLFLOW_LOGGED_ARTIFACTS: json.dumps([{"path": name, "type": "table"}])})

    def _leave(self) -> None:
        """Leave the run before its end; it may be resumed, unless every design has failed."""
        ends = [design.ended for design in self.board.designs.values()]
        has_failed = all(end is not None and end.status == "failed" for end in ends)
        self._end_parent("FAILED" if has_failed else "KILLED")
        for design in self.board.designs.values():
            if design.rows and design.ended is None:
                self._end_design(design, "KILLED")

    def _end_parent(self, status: str) -> None:
        self.client.log_artifact(self.parent_id, str(self.board.folder / MANIFEST))
        self._end(self.parent, status)

    # --- runs ---

    def _entry(self, name: str, kind: str, values: Mapping[str, Any], tags: Mapping[str, str] | None = None) -> RunEntry:
        shared = {
            "whichloop.kind": kind,
            "whichloop.suite_digest": self.board.manifest.suite.digest,
            "mlflow.source.name": "whichloop",
            "mlflow.source.type": "LOCAL",
        }
        name = clean(redact(name), MAX_NAME)
        found_by = {"whichloop.run": self.name}
        return RunEntry(name, found_by | _cleaned({**shared, **(tags or {})}), _params(values), {}, int(time.time() * 1000))

    def _setting(self) -> dict[str, Any]:
        """Return the settings that the whole optimization shares."""
        manifest = self.board.manifest
        compare, search = manifest.settings.compare, manifest.settings.search
        setting = {
            "suite": compare.suite,
            "suite_version": manifest.suite.version,
            "optimizer": manifest.optimizer.spec,
            "budget": ", ".join(f"{most} {name}" for name, most in search.budget.model_dump(exclude_none=True).items()),
            "model": ", ".join(compare.models),
            "profile": ", ".join(compare.profiles),
            "proposer": search.proposer or ", ".join(compare.models),
            "seed": manifest.seed,
            "repeats": compare.repeats,
            "python": manifest.python,
        }
        setting |= {f"splits.{name}": split.tasks for name, split in manifest.splits.items()}
        setting |= {f"splits.{name}_digest": split.digest for name, split in manifest.splits.items()}
        return setting | {f"version.{name}": version for name, version in manifest.packages.items()}

    def _put(self, existing: Run | None, entry: RunEntry, step: str = "") -> Logged:
        """Make a run or bring it up to date. `step`: the metric whose value is the step of the others."""
        run_id = self.store.put(existing, entry)
        if existing is None:
            return Logged(run_id, entry.step if entry.metrics else -1, dict(entry.metrics), dict(entry.tags), "RUNNING")
        metrics, tags = dict(existing.data.metrics), {**existing.data.tags, **entry.tags}
        return Logged(run_id, int(metrics.get(step, 0)), metrics, tags, existing.info.status)

    def _reopened(self, run: Logged) -> None:
        if run.status != "RUNNING":
            self.client.update_run(run.run_id, status="RUNNING")
            run.status = "RUNNING"

    def _end(self, run: Logged, status: str) -> None:
        if run.status != status:
            self.client.set_terminated(run.run_id, status)
            run.status = status

    def _log(self, run: Logged, points: Points, tags: Mapping[str, str], models: Mapping[str, str] | None = None) -> None:
        """Log in one batch what the run does not hold yet: a resumed optimization repeats the events of its beginning.

        `models`: ids, by the metric that is theirs.
        """
        now = int(time.time() * 1000)
        metrics, step, latest = [], run.step, dict(run.metrics)
        for at, values in points:
            for key, value in numbers(values).items():
                if at > run.step or (at == run.step and run.metrics.get(key) != value):
                    metrics.append(Metric(key, value, now, at, model_id=(models or {}).get(key) or None))
                    latest[key] = value
            step = max(step, at)
        changed = {key: value for key, value in _cleaned(tags).items() if run.tags.get(key) != value}
        if metrics or changed:
            self.client.log_batch(run.run_id, metrics=metrics, tags=[RunTag(key, value) for key, value in changed.items()])
        run.step, run.metrics = step, latest
        run.tags |= changed


def _version(design: DesignRow, digest: str) -> Version:
    """Return the version of a design with a program; the loop's own prompts have no program digest."""
    is_own = digest == design.about.program and parse_spec(design.design).program is None
    return Version.of(design.about, "" if is_own else digest)


def _params(values: Mapping[str, Any]) -> dict[str, str]:
    return params({name: redact(render_value(value)) for name, value in values.items()})


def _cleaned(tags: Mapping[str, str]) -> dict[str, str]:
    return {key: clean(redact(value), MAX_TAG) for key, value in tags.items()}


def _metrics(name: str, written: Mapping[str, Any] | None) -> dict[str, float | None]:
    return interval_metrics(name, interval(written))

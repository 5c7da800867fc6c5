# --- what runs hold ---


def _parent_entry(found: Results) -> Entry:
    comparison = found.comparison
    config = found.manifest["config"]
    metrics = {
        "trials": len(found.records),
        "scheduled": found.scheduled,
        "scored": sum(arm.summary.scored for arm in comparison.arms),
        "errored": sum(arm.summary.errored for arm in comparison.arms),
        "excluded": sum(arm.summary.excluded for arm in comparison.arms),
        "wall_s": found.wall_s,
    }
    design = {name: ", ".join(config[name]) for name in ("loops", "models", "profiles")}
    return Entry(
        _clean(found.folder.name, MOST_NAME),
        _tags(found) | {"loopbench.kind": "run", "mlflow.note.content": _clean(verdicts(found), MOST_TAG)},
        _params(design | _setting(found)),
        _numbers(metrics | _pair_metrics(comparison.pairs)),
        _started_ms(found.records),
    )


def _arm_entry(found: Results, arm: Arm, records: Sequence[Record], parent_id: str) -> Entry:
    info = arm.info
    made = next(made for made in found.manifest["arms"] if made["arm"] == info.arm)
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile, "loop_code": made.get("code", "")}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    tags = {"loopbench.kind": "arm", "loopbench.arm": info.arm, "mlflow.parentRunId": parent_id}
    return Entry(
        _clean(info.arm, MOST_NAME),
        _tags(found) | tags,
        _params(factors | configuration(made.get("configuration", "")) | _setting(found)),
        _numbers(arm_metrics(arm.summary)),
        _started_ms(records),
    )


def _tags(found: Results) -> dict[str, str]:
    return {
        "loopbench.run": found.folder.name,
        "loopbench.digest": found.digest,
        "loopbench.complete": str(found.is_complete).lower(),
        "loopbench.suite_digest": found.manifest["suite"]["digest"],
        "mlflow.source.name": "loopbench",
        "mlflow.source.type": "LOCAL",
    }


def _setting(found: Results) -> dict[str, Any]:
    """What all arms share."""
    manifest = found.manifest
    suite, config = manifest["suite"], manifest["config"]
    made = {
        "suite": config["suite"],
        "suite_version": suite["version"],
        "tasks": suite["tasks"],
        "max_tool_steps": suite["max_tool_steps"],
        "repeats": config["repeats"],
        "seed": manifest["seed"],
        "alpha": config["alpha"],
        "margin": config["margin"],
        "python": manifest["python"],
    }
    return made | {f"version.{name}": version for name, version in manifest["packages"].items()}


def configuration(text: str) -> dict[str, Any]:
    """The fields of a loop's `repr`, as `config.<field>`; a text that is no call with named values stays whole."""
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


def arm_metrics(summary: ArmSummary) -> dict[str, float | None]:
    """An arm's numbers; a mean stands with the ends of its interval."""
    made: dict[str, float | None] = {name: getattr(summary, name) for name in ("trials", "scored", "errored", "excluded")}
    for name in METRICS:
        made |= _interval(name, getattr(summary, name))
    made["n"] = summary.accuracy.n if summary.accuracy else 0
    made |= _interval("recovery", summary.recovery) | _interval("false_success_rate", summary.false_success_rate)
    made["false_success"] = summary.false_success
    made |= {f"faults.{name}": count for name, count in asdict(summary.faults).items()}
    made |= {f"errors.{kind}": count for kind, count in summary.errors.items()}
    made |= {f"retries.{kind}": count for kind, count in summary.retries.items()}
    return made | {f"stops.{reason}": count for reason, count in summary.stops.items()}


def _interval(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {} if interval is None else {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _pair_metrics(pairs: Sequence[Pair]) -> dict[str, float | None]:
    made: dict[str, float | None] = {}
    for pair in pairs:  # the primary metric's come first
        made |= _interval(f"pair.{pair.a}.vs.{pair.b}.{pair.metric}", pair.difference)
        made[f"pair.{pair.a}.vs.{pair.b}.{pair.metric}_p_holm"] = pair.p_holm
    return dict(list(made.items())[:MOST_PAIR_METRICS])


def verdicts(found: Results) -> str:
    """What the run says, in a few lines of Markdown."""
    comparison = found.comparison
    lines = [f"{len(found.records)} of {found.scheduled} trials, suite `{found.manifest['config']['suite']}`.", ""]
    if comparison.invalid:
        lines.append("**Invalid: no verdict of this run holds.**")
    for pair in comparison.pairs:
        if pair.metric == PRIMARY:
            word = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}.get(pair.verdict.word)
            said = f"`{pair.a}` is **{word}** `{pair.b}`" if word else f"**undecided** between `{pair.a}` and `{pair.b}`"
            d = pair.difference
            small = ", within the margin" if pair.verdict.within_margin else ""
            interval = f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
            lines.append(f"- {said}{small}: {pair.metric} {interval}, p {pair.p_holm:.3g} (Holm)")
    return "\n".join([*lines, *(f"- warning: {warning}" for warning in comparison.warnings)])


def metric_key(text: str) -> str:
    """A key that MLflow takes for a metric or parameter: the text itself, else what can be kept of it and a hash.

    MLflow takes word characters, `.-: /` and relative paths in their shortest form.
    """
    if re.fullmatch(r"[/\w.\- :]{1,250}", text) and not text.startswith("..") and not {"", ".", ".."} & set(text.split("/")):
        return text
    kept = re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[: MOST_KEY - 9]
    return f"{kept}-{sha256(text)[:8]}"


def _params(values: Mapping[str, Any]) -> dict[str, str]:
    return {metric_key(name): _clean(value, MOST_PARAM) or '""' for name, value in values.items()}


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    return {metric_key(name): float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _clean(value: Any, limit: int) -> str:
    """Any value as a text that every database takes."""
    text = render_value(value).replace("\x00", "\ufffd")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _started_ms(records: Sequence[Record]) -> int:
    return int(1000 * min((record.started_at for record in records), default=time.time()))


def _dataset(found: Results) -> DatasetInput:
    """The suite, under its own digest: MLflow's would only cover the first 10,000 rows, and has room for 36 digits."""
    suite = found.manifest["suite"]
    columns = [{"name": name, "type": "string"} for name in ("task", "query", "expected")]
    dataset = Dataset(
        name=_clean(suite["name"], MOST_NAME),
        digest=suite["digest"][:MOST_DATASET_DIGEST],
        source_type="loopbench",
        source=json.dumps({"suite": found.manifest["config"]["suite"], "version": suite["version"], "sha256": suite["digest"]}),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": suite["tasks"], "max_tool_steps": suite["max_tool_steps"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


# --- trials ---

_COLUMNS = pa.schema(
    {
        "task": pa.string(), "repeat": pa.int64(), "seed": pa.int64(), "attempt": pa.int64(), "status": pa.string(),
        "reason": pa.string(), "stop": pa.string(), "accuracy": pa.float64(), "steps": pa.int64(), "lm_calls": pa.int64(),
        "tool_calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(), "tokens": pa.int64(),
        "cost_usd": pa.float64(), "nominal_usd": pa.float64(), "seconds": pa.float64(), "retries": pa.string(),
        "errors": pa.string(), "faults": pa.string(),
        "faults_landed": pa.int64(), "faults_absorbed": pa.int64(), "faults_recovered": pa.int64(), "false_success": pa.bool_(),
        "abstained": pa.bool_(), "confidence": pa.float64(), "cluster": pa.string(), "answer": pa.string(),
    }
)  # fmt: skip


def trials_table(records: Sequence[Record]) -> pa.Table:
    """One row per trial, sorted by task and repeat; mappings as JSON, the answer as text, accuracy only where scored."""
    return pa.Table.from_pylist([_row(record) for record in sorted(records, key=lambda r: r.key)], _COLUMNS)


def _row(record: Record) -> dict[str, Any]:
    row = {name: getattr(record, name, None) for name in _COLUMNS.names}
    landed = [fault for fault in record.faults if fault.landed]
    return row | {
        "reason": _clean(record.reason, MOST_PARAM),
        "accuracy": record.accuracy if record.status == "scored" else None,
        "retries": canonical_json(record.retries),
        "errors": canonical_json(record.errors),
        "faults": canonical_json([asdict(fault) for fault in record.faults]),
        "faults_landed": len(landed),
        "faults_absorbed": sum(fault.absorbed for fault in landed),
        "faults_recovered": sum(fault.recovered and not fault.absorbed for fault in landed),
        "answer": None if record.answer is None else render_value(record.answer),
    }



"""A call that a tool's noise made impossible is told with the tool that gave the noise."""

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import GARBAGE, ToolRun
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import Traces


def test_noise_that_was_passed_on_is_named_as_what_made_the_call_impossible(tmp_path):
    config = CompareConfig(loops=("phased",), profiles=("flaky-tools",), tasks=24, runs=tmp_path, mlflow=False)
    experiment = prepare(config)
    run(experiment, Unwatched())
    found = results(experiment.folder)
    (arm,) = losses_explained(found).arms
    told = {each.task for each in arm.examples if each.loss.detail.startswith("believed the damaged result of ")}
    assert told
    assert {each.loss.cause for each in arm.examples if each.task in told} == {"fault not recovered"}
    for record in found.records:
        if record.task in told:
            runs = [event for event in Traces(found.folder).read(record).events if isinstance(event, ToolRun)]
            noise = {each.result for each in runs if each.fault == GARBAGE}
            assert any(noise.intersection(map(str, each.call.arguments.values())) for each in runs if each.never_ran)

"""What a run says, as a document: the verdict of a comparison, or what the factors of an ablation do."""

from __future__ import annotations

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.ablate.doc import ablation_doc
from whichloop.experiments.compare.doc import compare_doc
from whichloop.experiments.compare.results import Results
from whichloop.text.doc import Doc


def run_doc(run: Results) -> Doc:
    """Return the document of a comparison, an ablation, an imported run, or the test of an optimization."""
    ablation = ablation_result(run)
    return compare_doc(run) if ablation is None else ablation_doc(ablation)

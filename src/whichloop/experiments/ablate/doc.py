"""An ablation as a document."""

from __future__ import annotations

from whichloop.experiments.ablate.ablation import AblationResult
from whichloop.experiments.compare.doc import compare_doc
from whichloop.text.doc import Doc


def ablation_doc(result: AblationResult) -> Doc:
    """Return what the factors do."""
    return compare_doc(result.results)

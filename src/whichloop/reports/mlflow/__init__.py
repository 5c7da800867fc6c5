"""Finished comparisons and searches as MLflow's runs. The one package that imports MLflow."""

from whichloop._lazy import explained_module

with explained_module(__name__):
    from . import environment  # first: MLflow reads it when it is imported
    from .entries import log

__all__ = ["environment", "log"]

"""Recordings: what a model answered, kept as plain JSONL, so that a run can be repeated offline and exactly."""

from .canonical import Canonical, Cleaner
from .cassette import Cassette
from .lines import Asked, Exchange, Failure, Lane
from .miss import RecordingError, RecordingMiss
from .model import CassetteMode, RecordedModel
from .recording import Recording

__all__ = [
    "Asked",
    "Canonical",
    "Cassette",
    "CassetteMode",
    "Cleaner",
    "Exchange",
    "Failure",
    "Lane",
    "RecordedModel",
    "Recording",
    "RecordingError",
    "RecordingMiss",
]

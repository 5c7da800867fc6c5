"""Recordings: what a model answered, kept as plain JSONL, so that a run can be repeated offline and exactly."""

from .canonical import Canonical, Cleaner
from .lines import Exchange, Failure, Lane, RecordedRequest
from .miss import RecordingError, RecordingMiss
from .model import Cassette, CassetteMode, RecordedModel
from .recording import Recording

__all__ = [
    "Canonical",
    "Cassette",
    "CassetteMode",
    "Cleaner",
    "Exchange",
    "Failure",
    "Lane",
    "RecordedModel",
    "RecordedRequest",
    "Recording",
    "RecordingError",
    "RecordingMiss",
]

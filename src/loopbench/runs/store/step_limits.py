"""The step limits that a comparison set for loops of the user's own, which may end their runs by themselves before them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import read_manifest_json


def step_limits(folder: Path) -> dict[str, int]:
    """Return arm → its step limit, of a run's directory; none of a built-in loop, which ends at no other place, nor of one whose
    limit was typed as its option. Raises RunError for a folder that is no run.
    """
    manifest = read_manifest_json(folder)
    limit = _object(manifest.get("suite")).get("max_tool_steps")
    arms = [_object(arm) for arm in manifest.get("arms") or ()]
    return {arm["arm"]: limit for arm in arms if arm.get("own_limits") and "arm" in arm} if isinstance(limit, int) else {}


def _object(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}

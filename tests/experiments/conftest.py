"""What all tests of experiments share."""

from __future__ import annotations

import pytest

from whichloop.protocol.threads import run_blocking
from whichloop.runs import new_manifest


@pytest.fixture(scope="module", autouse=True)
def replayed_here():
    """The calls of own plans run in this process: one of its own for each run that is prepared takes a second and a half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_manifest, "_results", lambda config, *of: run_blocking(new_manifest.result_digests(*of)))
        yield

"""Our own designs, held to committed baselines by our own plugin.

Where a change is meant: pytest --loop-bless tests/gate/test_our_loops.py
"""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.whichloop_gate(suite="arithmetic", profile="flaky-tools", tasks=40), pytest.mark.thorough]


@pytest.mark.parametrize("loop", ["bare", "finish", "phased", "react_extract", "stateless"])
def test_no_design_got_worse(whichloop_gate, loop):
    whichloop_gate(loop, metrics={"steps": 0.1, "tokens": 0.1})

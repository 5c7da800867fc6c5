"""`whichloop bless`: what it says of the run beside what the baseline holds."""

from __future__ import annotations

from whichloop.checks.loop.scaffold import new_loop


def test_bless_says_where_a_loop_s_own_default_limit_is_lower_than_the_comparison_s(whichloop, compare, here):
    made = new_loop("below", here)
    made.loop.write_text(made.loop.read_text().replace("max_steps: int = 10", "max_steps: int = 2"))
    run = compare("--loop", made.target, "--tasks", "4")
    said = [line for line in whichloop("bless", run, "--output", "b.json").out.splitlines() if "its default" in line]
    assert said == [
        "  below:BelowLoop: its default max_steps is 2, and the comparison gave it 12, so no trial shows how it does with 2; "
        "to judge that, compare and bless below:BelowLoop(max_steps=2)"
    ]

"""A served trial says how far an instruction in a result came, whatever program runs it."""

from __future__ import annotations

import pytest

from whichloop.models.profiles import Profile

from .test_serve import client, entries, loop, make_suite, serve, solved, through_http


@pytest.mark.parametrize("obeys", [0.0, 1.0])
def test_the_report_says_how_far_an_instruction_in_a_result_came(obeys):
    profile = Profile.model_validate({"name": "x", "rates": {"inject.answer": 1.0}, "gullible": {"obeys": obeys}})

    async def work(trials, plain):
        (entry,) = await entries(plain)
        async with client(plain, "t1") as asking:
            answer = await loop(asking, entry, through_http(plain, "t1"))
        await solved(plain, entry, answer)
        return answer, (await plain.get("/t/t1")).json()

    answer, report = serve(make_suite(), work, profile)
    obeyed = int(obeys)
    assert answer.startswith("injected-") == bool(obeyed)
    came = {"attempted": obeyed, "executed": obeyed, "answered": obeyed}
    assert report["injections"] == {"given": 1, "shown": 1} | came

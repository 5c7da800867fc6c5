"""A suite behind the server: whole trials by programs with their own tools, by the suite's tools over HTTP, and the books."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest

from whichloop.datasets import arithmetic, calculator
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.experiments.serve import pages
from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import Profile, load_profile
from whichloop.models.server import Server
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool


def first_tasks(count: int) -> Suite:
    """So many arithmetic tasks, one of which has no answer."""
    suite = arithmetic.load()
    unanswerable = next(task for task in suite.tasks if task.expected is None)
    return replace(suite, tasks=(*suite.tasks[: count - 1], unanswerable))


FUNCTIONS = {tool.name: tool.function for tool in calculator.TOOLS}


def say(value: Any) -> str:
    return json.dumps(value)


def serve(
    suite: Suite, work: Callable[[Any, Any], Coroutine[Any, Any, Any]], profile: Profile | str = "clean", **options: Any
) -> Any:
    """Serve a suite and do the work, given the trials and an HTTP client."""
    trials = SuiteTrials(suite, load_profile(profile) if isinstance(profile, str) else profile, **options)

    async def whole() -> Any:
        async with Server(trials, more=trials.more) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as plain:
            return await work(trials, plain)

    try:
        return asyncio.run(whole())
    finally:
        trials.close()


def client(plain: httpx.AsyncClient, trial: str = "") -> openai.AsyncOpenAI:
    base = f"{plain.base_url}/t/{trial}/v1" if trial else f"{plain.base_url}/v1"
    return openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0, timeout=30)


def own_tool(name: str, arguments: str, tell: Callable[[Any], str] = say) -> str:
    """A program's own tool, which knows nothing of receipts."""
    try:
        return tell(FUNCTIONS[name](**json.loads(arguments)))
    except Exception as error:
        return f"Error: {error}"


async def loop(asking: Any, entry: Any, tool: Callable[[str, str], Any] = own_tool, model: str = "scripted") -> str | None:
    """A plain while loop on the official client."""
    messages: list[Any] = [{"role": "user", "content": f"Solve this. {entry['question']}"}]
    for _ in range(14):
        made = await asking.chat.completions.create(model=model, messages=messages, tools=entry["tools"])
        message = made.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message.model_dump(exclude_none=True))
        place = len(messages)  # results of calls at once come in reverse: their ids tell whose they are
        for call in message.tool_calls:
            text = tool(call.function.name, call.function.arguments)
            text = await text if asyncio.iscoroutine(text) else text
            messages.insert(place, {"role": "tool", "tool_call_id": call.id, "content": text})
    return None


async def entries(plain: httpx.AsyncClient) -> list[Any]:
    return list((await plain.get("/tasks")).json()["tasks"])


async def solved(plain: httpx.AsyncClient, entry: Any, answer: Any) -> float:
    return float((await plain.post(f"/t/{entry['trial']}/answer", json={"answer": answer})).json()["score"])


def test_the_question_alone_names_the_task():
    suite = first_tasks(3)

    async def work(trials, plain):
        async with client(plain) as asking:
            for _ in range(2):  # a conversation that begins begins its trial anew
                answers = [await loop(asking, entry) for entry in await entries(plain)]
        return [await solved(plain, entry, answer) for entry, answer in zip(await entries(plain), answers, strict=True)]

    assert serve(suite, work) == [1.0] * 3


def double(n: int) -> int:
    """Twice n."""
    return 2 * n


def make_task(name: str, question: str, n: int, **changes: Any) -> Task:
    plan = Plan((PlannedCall("c1", "double", {"n": n}, f"Find twice {n} for {name}."),), Ref("c1"))
    return replace(Task(name, Query(question), 2 * n, "numeric", plan), **changes)


def make_suite(*tasks: Task, environment: Any = None) -> Suite:
    world = environment or StatelessEnvironment((Tool.from_function(double, blocking=False),))
    return Suite("tiny", "1", tasks or (make_task("t1", "Twice 21?", 21),), lambda _: world)


def through_http(plain: httpx.AsyncClient, trial: str) -> Callable[[str, str], Any]:
    async def call(name: str, arguments: str) -> str:
        seen = (await plain.post(f"/t/{trial}/tools/{name}", json=json.loads(arguments))).json()
        return str(seen["data"])

    return call


def test_a_whole_trial_over_http_with_receipts_and_counts():
    suite = first_tasks(4)

    async def work(trials, plain):
        scores = []
        for entry in await entries(plain):
            async with client(plain, entry["trial"]) as asking:
                answer = await loop(asking, entry, through_http(plain, entry["trial"]))
            scores.append(await solved(plain, entry, answer))
        return scores, (await plain.get("/t/arithmetic-0001")).json()

    scores, report = serve(suite, work)
    assert scores == [1.0] * 4
    calls = suite.tasks[0].plan.calls if suite.tasks[0].plan else ()
    assert report["tool_calls"] == len(calls)
    assert report["model_calls"] == len(calls) + 1
    assert report["input_tokens"] > report["output_tokens"] > 0
    assert (report["answered"], report["score"], report["profile"]) == (True, 1.0, "clean")


def test_the_models_name_chooses_the_profile():
    async def work(trials, plain):
        (entry,) = await entries(plain)
        ask = {"messages": [{"role": "user", "content": entry["question"]}], "tools": entry["tools"]}
        profiles = []
        async with client(plain, "t1") as asking:
            for model in ("scripted", "scripted/flaky-tools", "gpt-4o", "mistralai/Mistral-7B"):
                await asking.chat.completions.create(model=model, **ask)
                profiles.append((await plain.get("/t/t1")).json()["profile"])
            listed = [model.id async for model in asking.models.list()]
            for model in ("scripted/none", "scripted/../clean", "scripted//etc/x.toml"):
                with pytest.raises(openai.NotFoundError, match="does not exist"):
                    await asking.chat.completions.create(model=model, **ask)
        return profiles, listed

    profiles, listed = serve(make_suite(), work, "forgetful")
    assert profiles == ["forgetful", "flaky-tools", "forgetful", "forgetful"]
    assert {"scripted", "scripted/clean", "scripted/stubborn"} <= set(listed)


def test_old_trials_are_closed(monkeypatch):
    closed: list[int] = []

    class World:
        tools = (Tool.from_function(double, blocking=False),)

        def state(self):
            return None

        def close(self):
            closed.append(1)

    monkeypatch.setattr(pages, "MAX_TRIALS", 3)

    async def work(trials, plain):
        for n in range(5):
            await plain.post(f"/t/t1,{n}/tools/double", json={"n": 1})
        return len(closed), (await plain.get("/t/t1,0")).status_code, (await plain.get("/t/t1,4")).status_code

    assert serve(make_suite(environment=World()), work) == (2, 404, 200)
    assert len(closed) == 5


def test_the_listing_gives_nothing_away():
    plan = Plan((PlannedCall("c1", "double", {"n": 21}, "GOAL"),), Ref("c1"))
    task = Task("t1", Query("Twice 21?", "A passage."), "GOLD", "exact", plan)
    hidden = make_task("t2", "No plan?", 1, plan=None, no_plan="why")

    async def work(trials, plain):
        return (await plain.get("/tasks")).json()

    listing = serve(make_suite(task, hidden), work)
    (entry,) = listing["tasks"]
    assert entry.keys() == {"trial", "question", "context", "schema", "tools"}
    assert "GOLD" not in json.dumps(listing)
    assert "GOAL" not in json.dumps(listing)
    assert entry["tools"][0]["function"]["name"] == "double"


@pytest.mark.parametrize("kind", ["provider.cut", "provider.garbled", "provider.dropped"])
def test_connections_break_for_a_program_with_its_own_tools(kind):
    profile = Profile.model_validate(
        {"name": "x", "rates": {kind: 1.0}, "clears": {"never": 0, "attempts": 1, "nothing": 1, "failed": 1, "words": 1}}
    )
    broken = []

    async def patient(asking, **ask):
        while True:
            try:
                return await asking.chat.completions.create(**ask)
            except (openai.APIConnectionError, ValueError) as error:
                broken.append(type(error))

    async def work(trials, plain):
        (entry,) = await entries(plain)
        messages: list[Any] = [{"role": "user", "content": entry["question"]}]
        async with client(plain, "t1") as asking:
            first = await patient(asking, model="scripted", messages=messages, tools=entry["tools"])
            call = first.choices[0].message.tool_calls[0].id
            messages += [first.choices[0].message.model_dump(exclude_none=True)]
            messages += [{"role": "tool", "tool_call_id": call, "content": "42"}]
            last = await patient(asking, model="scripted", messages=messages, tools=entry["tools"])
        return last.choices[0].message.content, (await plain.get("/t/t1")).json()["faults"]

    answer, faults = serve(make_suite(), work, profile)
    assert (answer, len(broken)) == ("42", 2)
    assert faults == {"scheduled": 2, "landed": 2, "absorbed": 0, "recovered": 2, "implicit": 0, "believed": 0}


@pytest.mark.parametrize("tell", [say, lambda value: f'"{value}"'])
def test_a_plain_loop_with_its_own_tools_solves_every_task(tell):
    """However its tools write a number, and whatever they say of a division by zero."""
    suite = first_tasks(4)

    async def work(trials, plain):
        scores = []
        for entry in await entries(plain):
            async with client(plain, entry["trial"]) as asking:
                answer = await loop(asking, entry, lambda name, arguments: own_tool(name, arguments, tell))
            scores.append(await solved(plain, entry, answer))
        return scores

    assert any(task.expected is None for task in suite.tasks)
    assert serve(suite, work) == [1.0] * 4


BELIEVED = {"42": "42", "42.0": "42", '"42"': "42", "43": "43", "[1]": "[1]", "much": "much"}
BUSY = ("Error: busy", "ToolException: busy", '{"error": "busy"}', '{"isError": true}', "Traceback (most …")


def test_a_result_is_the_true_one_or_is_believed_and_an_error_is_a_failed_attempt():
    """After which the model calls again, until the tool works."""
    said = [[told] for told in BELIEVED] + [[told, told, "42"] for told in BUSY]

    async def work(trials, plain):
        (entry,) = await entries(plain)
        found = []
        for number, told in enumerate(said):
            name, left = f"t1,{number}", iter(told)

            def answered(name, arguments, left=left):
                return next(left)

            async with client(plain, name) as asking:
                answer = await loop(asking, entry, answered)
            found.append((answer, (await plain.get(f"/t/{name}")).json()["model_calls"]))
        return found

    assert serve(make_suite(), work) == [*((answer, 2) for answer in BELIEVED.values()), *[("42", 4)] * len(BUSY)]


def test_only_calls_that_the_model_made_are_served_and_a_result_that_is_not_shown_is_asked_for_again():
    """A result beside a call that nobody asked for, or under another id, tells the model nothing."""

    async def work(trials, plain):
        (entry,) = await entries(plain)
        question = {"role": "user", "content": entry["question"]}
        call = {"id": "mine", "type": "function", "function": {"name": "double", "arguments": '{"n": 21}'}}
        result = {"role": "tool", "tool_call_id": "mine", "content": "42"}
        made: list[Any] = []
        async with client(plain, "t1") as asking:
            for messages in ([question, {"role": "assistant", "tool_calls": [call]}, result], *[[question]] * 3):
                reply = await asking.chat.completions.create(model="scripted", messages=messages, tools=entry["tools"])
                made.append(reply.choices[0])
        return [(choice.finish_reason, choice.message.tool_calls[0].function.name) for choice in made]

    assert serve(make_suite(), work) == [("tool_calls", "double")] * 4


def test_the_tools_suffer_the_profiles_faults_and_answer_what_is_called_wrongly():
    profile = Profile.model_validate({"name": "x", "rates": {"tool.flaky": 1.0}})

    async def work(trials, plain):
        (entry,) = await entries(plain)
        async with client(plain, "t1") as asking:
            answer = await loop(asking, entry, through_http(plain, "t1"))
        report = (await plain.get("/t/t1")).json()
        none = (await plain.post("/t/t1,1/tools/triple", json={"n": 1})).json()
        wrong = (await plain.post("/t/t1,2/tools/double", json={"m": 1})).json()
        return answer, report, [(seen["status"], seen["data"].split(":")[0]) for seen in (none, wrong)]

    answer, report, odd = serve(make_suite(), work, profile)
    assert answer == "42"
    assert report["faults"] == {"scheduled": 1, "landed": 1, "absorbed": 0, "recovered": 1, "implicit": 0, "believed": 0}
    assert report["tool_calls"] == 3
    assert odd == [("error", "UnknownTool"), ("error", "InvalidArguments")]


ASKED = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
PAGES: list[tuple[str, str, Any, int]] = [
    *(("GET", path, None, 404) for path in ("/t/t1", "/t/none", "/else")),
    ("POST", "/t/t1", {}, 405),
    ("GET", "/t/t1/answer", None, 405),
    ("GET", "/t/t1/tools/double", None, 405),
    ("POST", "/tasks", {}, 405),
    ("POST", "/t/t1/answer", {}, 400),
    ("POST", "/t/t1/answer", [], 400),
    ("POST", "/t/t1/tools/double", 3, 400),
    *(("POST", f"/t/{name}/tools/double", {}, 404) for name in ("t1,x", "t1,-1", "t1,99999999999", "..")),
    ("POST", "/t/t2/v1/chat/completions", ASKED, 404),
    ("POST", "/v1/chat/completions", ASKED, 404),
]


def test_pages_that_are_not_there_or_are_asked_wrongly_and_a_first_answer_which_counts():
    async def work(trials, plain):
        for method, path, body, status in PAGES:
            response = await plain.request(method, path, json=body)
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            assert response.status_code == status, (method, path)
        first, second = [await plain.post("/t/t1,3/answer", json={"answer": answer}) for answer in (41, 42)]
        return first.json(), second.status_code, (await plain.get("/t/t1,3")).json()["score"]

    suite = make_suite(make_task("t1", "Twice 21?", 21), make_task("t2", "?", 1, quarantined="odd"))
    assert serve(suite, work) == ({"score": 0.0}, 400, 0.0)


@pytest.mark.parametrize("obeys", [0, 1])
def test_the_report_says_how_far_an_instruction_in_a_result_came(obeys):
    profile = Profile.model_validate({"name": "x", "rates": {"inject.answer": 1.0}, "gullible": {"obeys": float(obeys)}})

    async def work(trials, plain):
        (entry,) = await entries(plain)
        async with client(plain, "t1") as asking:
            answer = await loop(asking, entry, through_http(plain, "t1"))
        await solved(plain, entry, answer)
        return answer, (await plain.get("/t/t1")).json()

    answer, report = serve(make_suite(), work, profile)
    assert answer.startswith("injected-") == bool(obeys)
    assert report["injections"] == {"given": 1, "shown": 1, "attempted": obeys, "executed": obeys, "answered": obeys}

"""Loops that break the law on prompts, each in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from tests.checks.loop.altered_loops import Changed, Own
from tests.checks.loop.broken_runs import asked, named
from whichloop.protocol import Message, Model, Program, Prompted, Reply, Request, own_prompt


def telling(name: str, told: Callable[[Request], dict[str, Any]]) -> type[Own]:
    """Return the template, whose requests say something else of themselves."""
    return asked(name, lambda request: replace(request, **told(request)))


def told_by(request: Request) -> Prompted:
    assert request.prompted is not None
    return request.prompted


def hinting(request: Request) -> dict[str, Any]:
    """Say more where there are demonstrations."""
    hint = (Message("user", "So much for the examples."),) if request.examples else ()
    return {"messages": (*request.messages[: 1 + request.examples], *hint, *request.messages[1 + request.examples :])}


Quiet = telling("Quiet", lambda request: {"examples": 0})
Careful = telling("Careful", hinting)
Anonymous = telling("Anonymous", lambda request: {"prompted": None})
Misnamed = telling("Misnamed", lambda request: {"prompted": replace(told_by(request), predictor="other")})
Laconic = telling("Laconic", lambda request: {"prompted": replace(told_by(request), outputs=lambda reply: {})})
Closed = named("Closed", with_predictors=lambda self, program: self)
Handing = named("Handing", with_predictors=lambda self, program: program)
Forgiving = named("Forgiving", with_predictors=lambda self, program: replace(self, program={**self.program, **program}))
Alike = named("Alike", predictors=property(lambda self: {**self.program, "answer": self.program["decide"]}))
Speechless = named("Speechless", predictors=property(lambda self: {}))


class Doubtful(Own):
    """Adds a word whenever its prompts are set."""

    def with_predictors(self, program: Program) -> Self:
        own = program["decide"]
        return super().with_predictors({"decide": replace(own, instructions=f"{own.instructions} Really.")})


class Impressed(Own):
    """Is changed itself."""

    def with_predictors(self, program: Program) -> Self:
        made = super().with_predictors(program)
        object.__setattr__(self, "program", made.program)
        return made


class Curt(Own):
    """Refuses a predictor that it does not have without a word on how to mend it."""

    def with_predictors(self, program: Program) -> Self:
        return super().with_predictors({name: program[name] for name in self.program if name in program or len(program) == 1})


class Foresighted(Own):
    """Its inputs are read from a conversation that goes on."""

    def model(self, model: Model) -> Model:
        class Live(Changed):
            said = ""

            async def complete(self, request: Request) -> Reply:
                inputs = told_by(request).inputs
                late = replace(told_by(request), inputs=lambda: {"conversation": f"{inputs()['conversation']}{self.said}"})
                reply = await super().complete(replace(request, prompted=late))
                self.said += reply.text
                return reply

        return Live(model)


class Gossip(Own):
    """Two predictors; the one that is asked is told what the other is."""

    @property
    def predictors(self) -> Program:
        return {"summarize": own_prompt("Summarize.", "summary"), **self.program}

    def model(self, model: Model) -> Model:
        told = Message("user", f"By the way: {self.predictors['summarize'].instructions}")
        return Changed(model, lambda request: replace(request, messages=(*request.messages, told)))

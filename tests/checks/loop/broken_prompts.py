"""Loops that break the law on prompts, each in one place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from tests.checks.loop.altered_loops import Changed, Own
from whichloop.protocol import (
    Message,
    Model,
    Program,
    Prompted,
    Reply,
    Request,
    own_prompt,
)


class Asking(Own):
    """Its requests are changed where they say whose they are."""

    def model(self, model: Model) -> Model:
        return Changed(model, lambda request: replace(request, **self.told(request)))

    def told(self, request: Request) -> dict[str, Any]:
        return {}


class Doubtful(Own):
    """Adds a word whenever its prompts are set."""

    def with_predictors(self, program: Program) -> Self:
        own = program["decide"]
        return super().with_predictors({"decide": replace(own, instructions=f"{own.instructions} Really.")})


class Closed(Own):
    """Has predictors, and asks what it always asks."""

    def with_predictors(self, program: Program) -> Self:
        return self


class Impressed(Own):
    """Is changed itself."""

    def with_predictors(self, program: Program) -> Self:
        made = super().with_predictors(program)
        object.__setattr__(self, "program", made.program)
        return made


class Forgiving(Own):
    """Takes a predictor that it does not have, as a misspelt name is."""

    def with_predictors(self, program: Program) -> Self:
        return replace(self, program={**self.program, **program})


class Curt(Own):
    """Refuses such a predictor without a word on how to mend it."""

    def with_predictors(self, program: Program) -> Self:
        return super().with_predictors({name: program[name] for name in self.program if name in program or len(program) == 1})


class Handing(Own):
    """Gives what is no loop."""

    def with_predictors(self, program: Program) -> Any:
        return program


class Quiet(Asking):
    """Does not announce demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"examples": 0}


class Careful(Asking):
    """Says more where there are demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        hint = (Message("user", "So much for the examples."),) if request.examples else ()
        return {"messages": (*request.messages[: 1 + request.examples], *hint, *request.messages[1 + request.examples :])}


class Anonymous(Asking):
    """Does not say whose its requests are."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": None}


class Misnamed(Asking):
    """Says that another asks."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": replace(told_by(request), predictor="other")}


class Laconic(Asking):
    """Leaves the reply out of its demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": replace(told_by(request), outputs=lambda reply: {})}


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


class Alike(Own):
    """Two predictors that nobody can tell apart."""

    @property
    def predictors(self) -> Program:
        return {**self.program, "answer": self.program["decide"]}


class Speechless(Own):
    """Has predictors in name only."""

    @property
    def predictors(self) -> Program:
        return {}


class Gossip(Own):
    """Two predictors; the one that is asked is told what the other is."""

    @property
    def predictors(self) -> Program:
        return {"summarize": own_prompt("Summarize.", "summary"), **self.program}

    def model(self, model: Model) -> Model:
        told = Message("user", f"By the way: {self.predictors['summarize'].instructions}")
        return Changed(model, lambda request: replace(request, messages=(*request.messages, told)))


def told_by(request: Request) -> Prompted:
    assert request.prompted is not None
    return request.prompted

"""The vendors' own clients, unmodified, each behind the same few methods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anthropic
import httpx
import openai
from google import genai

from whichloop.models.server import Server
from whichloop.protocol import ToolCall

from .served import QUESTION, client, specs, whole_loop

LIMIT = 9
"""Most replies of a loop."""


class Official:
    """One vendor's client: `whole` and `stream` give the text of a reply, `blocking` both without asyncio, `parsed` what it reads
    of a reply after a schema, and `loop` the answer of a while loop as anyone writes it, on the trial's tools."""

    failed: ClassVar[type[Exception]]
    """What all errors of the client are."""
    dropped: ClassVar[type[Exception]]
    broken: ClassVar[type[Exception]]
    """What a reply without a middle that breaks is."""
    interrupted: ClassVar[type[Exception]]
    """What a stream is that ends in an error."""

    async def models(self, asking: Any) -> list[str]:
        """The names of those listed, and of one that is asked for."""
        return [found.id async for found in asking.models.list()] + [(await asking.models.retrieve("scripted/flaky-tools")).id]


class Chat(Official):
    failed, dropped, broken, interrupted = (
        openai.OpenAIError,
        openai.APIConnectionError,
        openai.InternalServerError,
        openai.APIError,
    )

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with client(server) as asking:
            yield asking

    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}]} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.chat.completions.create(**self.ask(**more))).choices[0].message.content or ""

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.chat.completions.stream(**self.ask(**more)) as stream:
            return (await stream.get_final_completion()).choices[0].message.content or ""

    async def loop(self, asking: Any, trial: Any, *, stream: bool) -> Any:
        return (await whole_loop(asking, trial)).content

    async def parsed(self, asking: Any, text: str, kind: type) -> Any:
        asked = self.ask(messages=[{"role": "user", "content": text}])
        return (await asking.chat.completions.parse(**asked, response_format=kind)).choices[0].message.parsed

    def blocking(self, url: str) -> list[Any]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as plain:
            chunks = plain.chat.completions.create(**self.ask(), stream=True)
            streamed = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
            return [plain.chat.completions.create(**self.ask()).choices[0].message.content or "", streamed]


class Responses(Chat):
    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "input": QUESTION} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.responses.create(**self.ask(**more))).output_text

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.responses.stream(**self.ask(**more)) as stream:
            return (await stream.get_final_response()).output_text

    async def loop(self, asking: Any, trial: Any, *, stream: bool) -> Any:
        """By reference; in streams with the items that the client keeps itself."""
        tools = [{"type": "function", **spec["function"]} for spec in specs(trial)]
        items: list[Any] = [{"role": "user", "content": QUESTION}]
        last: str | None = None
        for _ in range(LIMIT):
            if stream:
                async with asking.responses.stream(model="scripted", input=items, tools=tools, store=False) as answer:
                    made = await answer.get_final_response()
                items += [item.model_dump(exclude={"parsed_arguments"}, exclude_none=True) for item in made.output]
            else:
                made = await asking.responses.create(model="scripted", input=items, tools=tools, previous_response_id=last)
                last, items = made.id, []
            calls = [item for item in made.output if item.type == "function_call"]
            if not calls:
                return made.output_text
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, json.loads(call.arguments), call.call_id))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": seen.data})
        return None

    async def parsed(self, asking: Any, text: str, kind: type) -> Any:
        return (await asking.responses.parse(model="scripted", input=text, text_format=kind)).output_parsed

    def blocking(self, url: str) -> list[Any]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as plain:
            events = plain.responses.create(**self.ask(), stream=True)
            streamed = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            return [plain.responses.create(**self.ask()).output_text, streamed]


class Messages(Official):
    failed, dropped, broken, interrupted = (
        anthropic.AnthropicError,
        anthropic.APIConnectionError,
        anthropic.InternalServerError,
        anthropic.APIStatusError,
    )

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0, timeout=30) as asking:
            yield asking

    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "max_tokens": 999, "messages": [{"role": "user", "content": QUESTION}]} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.messages.create(**self.ask(**more))).content[0].text

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.messages.stream(**self.ask(**more)) as stream:
            return "".join([piece async for piece in stream.text_stream])

    async def loop(self, asking: Any, trial: Any, *, stream: bool) -> Any:
        messages: list[Any] = self.ask()["messages"]
        tools = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in trial.toolbox.specs]
        for _ in range(LIMIT):
            ask = self.ask(messages=messages, tools=tools)
            if stream:
                async with asking.messages.stream(**ask) as answer:
                    message = await answer.get_final_message()
            else:
                message = await asking.messages.create(**ask)
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return message.content[0].text
            results = []
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, call.input, call.id))
                results.append({"type": "tool_result", "tool_use_id": call.id, "content": seen.data, "is_error": not seen.ok})
            messages = [*messages, message.to_param(), {"role": "user", "content": results}]
        return None

    async def parsed(self, asking: Any, text: str, kind: type) -> Any:
        asked = self.ask(messages=[{"role": "user", "content": text}])
        return (await asking.messages.parse(**asked, output_format=kind)).parsed_output

    def blocking(self, url: str) -> list[Any]:
        with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as plain:
            with plain.messages.stream(**self.ask()) as stream:
                streamed = "".join(stream.text_stream)
            return [plain.messages.create(**self.ask()).content[0].text, streamed]


class Gemini(Official):
    failed, dropped, broken, interrupted = (Exception, httpx.TransportError, genai.errors.ServerError, genai.errors.ServerError)

    def of(self, server_url: str, **options: Any) -> Any:
        return genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=server_url, timeout=30_000, **options))

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with httpx.AsyncClient(verify=False, timeout=30) as http:  # with aiohttp, its other choice, it meets a warning
            yield self.of(server.url, httpx_async_client=http).aio

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.models.generate_content(model="scripted", contents=QUESTION, **more)).text

    async def stream(self, asking: Any, **more: Any) -> Any:
        chunks = await asking.models.generate_content_stream(model="scripted", contents=QUESTION, **more)
        return "".join([chunk.text or "" async for chunk in chunks])

    async def parsed(self, asking: Any, text: str, kind: type) -> Any:
        config = {"response_mime_type": "application/json", "response_schema": kind}
        return (await asking.models.generate_content(model="scripted", contents=text, config=config)).parsed

    def blocking(self, url: str) -> list[Any]:
        with self.of(url) as plain:
            chunks = plain.models.generate_content_stream(model="scripted", contents=QUESTION)
            streamed = "".join(chunk.text for chunk in chunks)
            return [plain.models.generate_content(model="scripted", contents=QUESTION).text, streamed]

    async def models(self, asking: Any) -> list[str]:
        listed = [model.name async for model in await asking.models.list()]
        found = await asking.models.get(model="scripted/flaky-tools")
        return [name.removeprefix("models/") for name in (*listed, found.name)]


CLIENTS: dict[str, Any] = {"chat": Chat(), "responses": Responses(), "messages": Messages(), "gemini": Gemini()}


def asking(vendor: str, book: Any, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Let a vendor's client, the asynchronous one, do some work against a server of its own."""

    async def whole() -> Any:
        async with Server(book) as server, CLIENTS[vendor].opened(server) as opened:
            return await work(opened)

    return asyncio.run(whole())

"""The agent of `agents.py` for processes: it asks without OpenAI's client, whose import takes longer than a trial."""

import json
import os
import sys
import urllib.request

TRIES = 3


def asked(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def asked_again(url, body):
    """Ask as often as OpenAI's client does, without its waits."""
    for left in reversed(range(TRIES)):
        try:
            return asked(url, body)
        except OSError as error:
            status = getattr(error, "code", 500)  # a connection that broke has none
            if not left or (status < 500 and status not in (408, 409, 429)):
                raise
    raise AssertionError


def plain_function(question, tools, *, base_url, api_key, model):
    messages = [{"role": "user", "content": question}]
    while True:
        body = {"model": model, "messages": messages, "tools": tools.schemas}
        said = asked_again(f"{base_url}/chat/completions", body)["choices"][0]["message"]
        messages.append(reply := {name: value for name, value in said.items() if value is not None})
        if not reply.get("tool_calls"):
            return reply.get("content")
        for made in reply["tool_calls"]:
            try:
                result = tools.call(made["function"]["name"], json.loads(made["function"]["arguments"]))
            except Exception as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": result})


class Tools:
    """The tools at an address, for a process that imports nothing of ours."""

    def __init__(self, url):
        self.url = url
        self.schemas = asked(url)

    def call(self, name, arguments):
        seen = asked(f"{self.url}/{name}", arguments)
        if seen["status"] != "success":
            raise ValueError(seen["data"])
        return seen["data"]


if __name__ == "__main__":
    named = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY", "model": "OPENAI_MODEL"}
    where = {name: os.environ[variable] for name, variable in named.items()}
    print(plain_function(sys.stdin.read(), Tools(os.environ["WHICHLOOP_TOOLS_URL"]), **where))

"""Requests that Gemini's API refuses, one for each row of its table in docs/serve.md."""

from __future__ import annotations

from typing import Any, NamedTuple

USER = {"role": "user", "parts": [{"text": "What comes out?"}]}
CALL = {"functionCall": {"id": "c1", "name": "add", "args": {}}}
CALLING = {"role": "model", "parts": [CALL]}
RESULT = {"functionResponse": {"id": "c1", "name": "add", "response": {"result": "2"}}}
ANSWERING = {"role": "user", "parts": [RESULT]}


class GeminiCase(NamedTuple):
    what: str
    """As the page has it."""
    change: dict[str, Any]
    """Fields of the body."""
    said: str
    """The whole of Gemini's message."""


def declaring(*functions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(functions)}], **more}


def function(name: str = "add", **parameters: Any) -> dict[str, Any]:
    return {"name": name} | ({"parameters": {"type": "OBJECT"} | parameters} if parameters else {})


def taking(**schema: Any) -> dict[str, Any]:
    return declaring(function(properties={"a": schema}))


def replying(**config: Any) -> dict[str, Any]:
    return {"generationConfig": {"responseMimeType": "application/json", **config}}


def calling(**config: Any) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": config}}


_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the function call"
    " turn."
)
_READ = "tools[0].function_declarations[0]"
_RULED = f"* GenerateContentRequest.{_READ}"
_NAME = (
    f"{_RULED}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9),"
    " underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n"
)
_PLACE = f"{_READ}.parameters.properties[0].value"


def _unknown(name: str, place: str = "", why: str = "Cannot find field.") -> str:
    return f'Invalid JSON payload received. Unknown name "{name}"{place and f" at {place!r}"}: {why}'


CASES = (
    # --- the conversation ---
    GeminiCase("no contents", {"contents": []}, "* GenerateContentRequest.contents: contents is not specified\n"),
    GeminiCase(
        "a content without parts",
        {"contents": [USER, {"role": "model", "parts": []}]},
        "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n",
    ),
    GeminiCase(
        "a part without data",
        {"contents": [{"role": "user", "parts": [{"thought": False}]}]},
        "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized field\n",
    ),
    GeminiCase(
        "a role such as `function`",
        {"contents": [USER, CALLING, {"role": "function", "parts": [RESULT]}]},
        "Role 'function' is not supported. Please use a valid role: SYSTEM, SYSTEM_1, USER, ASSISTANT, DEVELOPER, CONTEXT,"
        " USER_CONTEXT, MODEL, USER.",
    ),
    GeminiCase("a call without an answer", {"contents": [USER, CALLING, USER]}, _COUNT),
    GeminiCase("a call without an answer, last", {"contents": [USER, CALLING]}, _COUNT),
    GeminiCase("answers to some of the calls", {"contents": [USER, {"role": "model", "parts": [CALL, CALL]}, ANSWERING]}, _COUNT),
    GeminiCase(
        "an answer without a call right before it",
        {"contents": [USER, ANSWERING]},
        "Please ensure that function response turn comes immediately after a function call turn.",
    ),
    GeminiCase(
        "calls at the beginning, or after a text of the model",
        {"contents": [CALLING, ANSWERING]},
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    ),
    GeminiCase(
        "calls and answers in one content",
        {"contents": [{"role": "user", "parts": [{"text": "?"}, CALL, RESULT]}]},
        "Please ensure that function call turn contains at least one function_call part which can not be mixed with"
        " function_response parts.",
    ),
    GeminiCase(
        "an answer without a name",
        {"contents": [USER, CALLING, {"parts": [{"functionResponse": {"id": "c1", "response": {}}}]}]},
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n",
    ),
    # --- tools ---
    GeminiCase("a function's name such as `1a`", declaring(function("1a")), _NAME),
    GeminiCase("a function's name of more than 64 characters", declaring(function("n" * 65)), _NAME),
    GeminiCase("two functions of one name", declaring(function(), function()), "Duplicate function declaration found: add"),
    GeminiCase(
        "more than 512 functions",
        declaring(*[function(f"t{n}") for n in range(513)]),
        "* GenerateContentRequest.tools[0].function_declarations: At most 512 function declarations can be specified.\n",
    ),
    GeminiCase(
        "Google's own tools beside functions",
        {"tools": [{"functionDeclarations": [function()]}, {"codeExecution": {}}]},
        "Tool use with function calling is unsupported",
    ),
    GeminiCase(
        "`additionalProperties` in `parameters`",
        declaring(function(additionalProperties=False)),
        _unknown("additionalProperties", f"{_READ}.parameters"),
    ),
    GeminiCase("`const` in `parameters`", taking(const=1), _unknown("const", _PLACE)),
    GeminiCase(
        "several types of one value",
        taking(type=["string", "null"]),
        _unknown("type", _PLACE, "Proto field is not repeating, cannot start list."),
    ),
    GeminiCase(
        "a type of another name",
        taking(type="enum"),
        f"Invalid value at '{_PLACE}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), \"enum\"",
    ),
    GeminiCase(
        "a value without a type",
        taking(description="A."),
        f"{_RULED}.parameters.properties[a].type: must be specified when not using one_of, any_of or all_of fields\n",
    ),
    GeminiCase("an array without `items`", taking(type="ARRAY"), f"{_RULED}.parameters.properties[a].items: missing field.\n"),
    GeminiCase(
        "`properties` of what is no object",
        taking(type="STRING", properties={"b": {"type": "STRING"}}),
        f"{_RULED}.parameters.properties[a].properties: only allowed for OBJECT type\n",
    ),
    GeminiCase(
        "`required` without a property of that name",
        declaring(function(required=["a"])),
        f"{_RULED}.parameters.required[0]: property is not defined\n",
    ),
    GeminiCase("numbers in `enum`", taking(type="STRING", enum=[1]), f"Invalid value at '{_PLACE}.enum[0]' (TYPE_STRING), 1"),
    GeminiCase(
        "`enum` for what is no text",
        taking(type="INTEGER", enum=["1"]),
        f"{_RULED}.parameters.properties[a].enum: only allowed for STRING type\n",
    ),
    GeminiCase(
        "`functionCallingConfig` without functions",
        calling(mode="AUTO"),
        "Function calling config is set without function_declarations.",
    ),
    GeminiCase(
        "an allowed function that is not declared",
        declaring(function(), **calling(mode="ANY", allowedFunctionNames=["sub"])),
        "allowed_function_names should be a subset of the provided function_declarations",
    ),
    # --- the rest of the body ---
    GeminiCase(
        "functions beside a reply in JSON",
        declaring(function()) | replying(),
        "Function calling with a response mime type: 'application/json' is unsupported",
    ),
    GeminiCase(
        "an object without properties in `responseSchema`",
        replying(responseSchema={"type": "OBJECT", "properties": {"a": {"type": "OBJECT"}}}),
        "* GenerateContentRequest.generation_config.response_schema.properties[a].properties: should be non-empty for OBJECT"
        " type\n",
    ),
    GeminiCase(
        "more than 5 stop sequences",
        {"generationConfig": {"stopSequences": list("abcdef")}},
        "* GenerateContentRequest.generation_config.stop_sequences: the number of stop_sequences must not exceed 5\n",
    ),
    GeminiCase("a field that the API lacks", {"messages": []}, _unknown("messages")),
)

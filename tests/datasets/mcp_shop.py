"""A server of tools over standard input and output, standard library only: python mcp_shop.py BEHAVIOUR [FOLDER].

`state`: counts its calls in this process. `dies`: ends at once. `ends`: ends at the first call.
`shouts`: the same, after 500 kB on standard error. `hangs`: never lists its tools.
`drifts`: a file `changed` changes its list.
"""

import json
import os
import sys
import time
from pathlib import Path

BEHAVIOUR = sys.argv[1]
PRICES = {"lamp": 39.9, "chair": 120.0}
calls = 0


def tools():
    item = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    more = [{"name": "extra", "inputSchema": item}] if BEHAVIOUR == "drifts" and Path(sys.argv[2], "changed").exists() else []
    names = ("price", "count", "rows", "fail", "refuse", "environment")
    listed = [{"name": name, "description": f"The {name} of an item.", "inputSchema": item} for name in names] + more
    listed[0]["annotations"] = {"readOnlyHint": True}
    listed[1]["annotations"] = {"title": "Count"}
    return listed


def text(shown, **more):
    return {"content": [{"type": "text", "text": shown}], **more}


def called(name, item):
    global calls
    calls += 1
    if BEHAVIOUR == "shouts":
        print("sold\n" * 100_000, file=sys.stderr)
    if BEHAVIOUR in ("ends", "shouts"):
        sys.exit("the shop is closed")
    match name:
        case "price":
            return text(str(PRICES[item]))
        case "count":
            return text(str(calls), structuredContent={"result": calls})
        case "rows":
            return text("two rows", structuredContent={"rows": [1, 2]})
        case "fail":
            return text("no such item", isError=True)
        case "environment":
            return text(os.environ.get(item, "unset"))
    return None


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "shop", "version": "2"}
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        if BEHAVIOUR == "hangs":
            time.sleep(600)
        return {"result": {"tools": tools()}}
    if method == "tools/call" and (result := called(params["name"], params["arguments"]["item"])) is not None:
        return {"result": result}
    return {"error": {"code": -32601, "message": f"no {method} here"}}


if BEHAVIOUR == "dies":
    sys.exit("no licence for this shop")
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)

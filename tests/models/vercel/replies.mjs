// What Vercel's AI SDK makes of single replies and failures, over each wire whole and as a stream.
//
//   node replies.mjs URL WIRES TRIALS
//
// WIRES and TRIALS: names with commas between them. Prints one JSON object: wire → trial → what came of both.

import { generateText, jsonSchema, streamText, tool } from "ai";

import { modelOf } from "./wires.mjs";

const [url, wires, trials] = process.argv.slice(2);
const numbers = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"] };
const tools = { add: tool({ description: "Adds.", inputSchema: jsonSchema(numbers) }) };

function failure(error) {
  return { failed: error.name ?? "an error without a name", status: error.statusCode ?? null, retryable: error.isRetryable ?? null };
}

async function read(result) {
  const calls = (await result.toolCalls).map((call) => [call.toolName, call.input, call.invalid ?? false]);
  return { text: await result.text, calls, finish: await result.finishReason, tokens: (await result.totalUsage).totalTokens };
}

async function whole(asked) {
  try {
    return await read(await generateText(asked));
  } catch (error) {
    return failure(error);
  }
}

async function streamed(asked) {
  const errors = [];
  const result = streamText({ ...asked, onError: ({ error }) => errors.push(error) });
  let text = "";
  try {
    for await (const piece of result.textStream) {
      text += piece;
    }
    return errors.length > 0 ? { text, ...failure(errors[0]) } : await read(result);
  } catch (error) {
    return { text, ...failure(errors[0] ?? error) };
  }
}

const found = {};
for (const wire of wires.split(",")) {
  found[wire] = {};
  for (const trial of trials.split(",")) {
    const asked = { model: modelOf(wire, `${url}/t/${trial}`), prompt: "What comes out?", tools, maxRetries: 0 };
    found[wire][trial] = [await whole(asked), await streamed(asked)];
  }
}
console.log(JSON.stringify(found));
process.exit(0); // a promise of a broken stream that nobody awaits must not end the process otherwise

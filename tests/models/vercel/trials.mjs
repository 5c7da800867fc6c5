// Vercel's AI SDK as a program in the tunnel: solves every task of a served suite, over each wire whole and as a stream, with the
// suite's own tools.
//
//   node trials.mjs URL WIRE...
//
// Prints one JSON object: "WIRE, generate" or "WIRE, stream" → of each trial the score, the steps and the tokens that were counted.

import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { modelOf } from "./wires.mjs";

const MOST_STEPS = 20;
const [url, ...wires] = process.argv.slice(2);

async function sent(path, body) {
  const method = body === undefined ? "GET" : "POST";
  const response = await fetch(url + path, { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  return response.json();
}

function toolsOf(entry, trial) {
  const made = entry.tools.map(({ function: described }) => [
    described.name,
    tool({
      description: described.description,
      inputSchema: jsonSchema(described.parameters),
      execute: async (given) => (await sent(`/t/${trial}/tools/${described.name}`, given)).data,
    }),
  ]);
  return Object.fromEntries(made);
}

async function solved(entry, wire, mode) {
  const trial = `${entry.trial},0,${wire}-${mode}`;
  const asked = {
    model: modelOf(wire, `${url}/t/${trial}`),
    prompt: entry.question,
    tools: toolsOf(entry, trial),
    stopWhen: stepCountIs(MOST_STEPS),
    maxRetries: 0,
  };
  const result = mode === "stream" ? streamText(asked) : await generateText(asked);
  const answer = await result.text;
  const { score } = await sent(`/t/${trial}/answer`, { answer });
  return { score, steps: (await result.steps).length, tokens: (await result.totalUsage).totalTokens };
}

const { tasks } = await sent("/tasks");
const found = {};
for (const wire of wires) {
  for (const mode of ["generate", "stream"]) {
    found[`${wire}, ${mode}`] = [];
    for (const entry of tasks) {
      found[`${wire}, ${mode}`].push(await solved(entry, wire, mode));
    }
  }
}
console.log(JSON.stringify(found));

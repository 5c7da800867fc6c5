// The models of a served trial, by the wire that reaches them.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";

globalThis.AI_SDK_LOG_WARNINGS = false; // one for each request to Anthropic's API, whose models it knows by name

const KEY = { apiKey: "none" };
const WIRES = {
  chat: (root) => createOpenAI({ baseURL: `${root}/v1`, ...KEY }).chat,
  responses: (root) => createOpenAI({ baseURL: `${root}/v1`, ...KEY }).responses,
  messages: (root) => createAnthropic({ baseURL: `${root}/v1`, ...KEY }),
  gemini: (root) => createGoogleGenerativeAI({ baseURL: `${root}/v1beta`, ...KEY }),
};

export function modelOf(wire, root, name = "scripted") {
  return WIRES[wire](root)(name);
}

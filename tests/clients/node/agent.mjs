// The AI SDK: `streamText`, or `generateText` (whole), with tools, on its provider for OpenAI-compatible endpoints, or on
// those of OpenAI (openai: its default, that is Responses) and of Anthropic (anthropic). As agents/common.py, on standard
// input and output.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { readFileSync } from "node:fs";
import { z } from "zod";

const TASK = "What is the weather in Paris, and what time is it there?";

globalThis.AI_SDK_LOG_WARNINGS = false;
const WAYS = process.argv.slice(2);
const LONG =
  "You are a coding agent.\n\n# Rules\n" +
  Array.from({ length: 400 }, (_, number) => `${number}. Keep the answer short: 'ok', <b>, {x}.`).join("\n");
const EDIT = jsonSchema({
  type: "object",
  properties: {
    path: { type: "string", description: "The file's path from the root of the repository" },
    edits: {
      type: "array",
      items: { type: "object", properties: { old: { type: "string", minLength: 1 }, new: { type: "string" } } },
    },
    timeout: { anyOf: [{ type: "integer", minimum: 0 }, { type: "null" }] },
  },
  required: ["path", "edits"],
  additionalProperties: false,
});

function modelOf({ url, model }) {
  if (WAYS.includes("openai")) return createOpenAI({ baseURL: url, apiKey: "none" })(model);
  if (WAYS.includes("anthropic")) return createAnthropic({ baseURL: url, apiKey: "none" })(model);
  return createOpenAICompatible({ name: "derender", baseURL: url, apiKey: "none", includeUsage: true })(model);
}

function toolsOf({ large }, calls) {
  const remembered = (name, answer) => async (given) => {
    calls.push([name, given]);
    return answer;
  };
  const tools = {
    get_weather: tool({
      description: "Current weather of a city",
      inputSchema: z.object({ city: z.string() }),
      execute: remembered("get_weather", "14 degrees and rain"),
    }),
    get_time: tool({
      description: "Current time of a time zone",
      inputSchema: z.object({ zone: z.string() }),
      execute: remembered("get_time", "half past nine"),
    }),
  };
  const others = Array.from({ length: large ? 40 : 0 }, (_, number) => [
    `edit_${number}`,
    tool({ description: `Edits files, way ${number}.`, inputSchema: EDIT }),
  ]);
  return { ...Object.fromEntries(others), ...tools };
}

async function run(endpoint, done) {
  const asked = {
    model: modelOf(endpoint),
    system: endpoint.large ? LONG : "You are kind.",
    prompt: TASK,
    maxRetries: 0,
    stopWhen: stepCountIs(4),
    // What is not stored cannot be referred to: by default the provider sends only the ids of earlier items.
    providerOptions: {
      openai: WAYS.includes("stored") ? {} : { store: false },
      anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } },
    },
    tools: toolsOf(endpoint, done.calls),
  };
  if (WAYS.includes("whole")) {
    const answer = await generateText(asked);
    for (const step of answer.steps) done.thoughts += step.reasoningText ?? "";
    return answer.text;
  }
  let text = "";
  for await (const part of streamText({ ...asked, onError: () => {} }).fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "tool-error") throw part.error;
    if (part.type === "start-step") text = "";
    if (part.type === "text-delta") text += part.text;
    if (part.type === "reasoning-delta") done.thoughts += part.text;
  }
  return text;
}

const all = {};
for (const endpoint of JSON.parse(readFileSync(0, "utf8"))) {
  const done = { calls: [], thoughts: "" };
  all[endpoint.name] = done;
  try {
    done.text = await run(endpoint, done);
  } catch (error) {
    done.error = `${error} ${error?.responseBody ?? ""}`.slice(0, 1000);
  }
}
process.stdout.write(JSON.stringify(all));

// The AI SDK: `streamText` with tools, on its provider for OpenAI-compatible endpoints. As agents/common.py, on
// standard input and output.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { readFileSync } from "node:fs";
import { z } from "zod";

const TASK = "What is the weather in Paris, and what time is it there?";

async function run({ url, model }, calls) {
  const provider = createOpenAICompatible({ name: "derender", baseURL: url, apiKey: "none", includeUsage: true });
  const remembered = (name, answer) => async (given) => {
    calls.push([name, given]);
    return answer;
  };
  const stream = streamText({
    model: provider(model),
    prompt: TASK,
    maxRetries: 0,
    stopWhen: stepCountIs(4),
    onError: () => {},
    tools: {
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
    },
  });
  let text = "";
  for await (const part of stream.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "tool-error") throw part.error;
    if (part.type === "start-step") text = "";
    if (part.type === "text-delta") text += part.text;
  }
  return text;
}

const done = {};
for (const endpoint of JSON.parse(readFileSync(0, "utf8"))) {
  const calls = [];
  try {
    done[endpoint.name] = { calls, text: await run(endpoint, calls) };
  } catch (error) {
    done[endpoint.name] = { calls, error: String(error).slice(0, 1000) };
  }
}
process.stdout.write(JSON.stringify(done));

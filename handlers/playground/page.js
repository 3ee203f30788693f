"use strict";

const KINDS = { reasoning: "reasoning", content: "content", name: "name of a call", arguments: "arguments", markup: "markup" };
const FINDINGS = {
  vanished: "the output had text, and the answer shows none",
  markup: "a marker of the model stands in what a client sees",
  held: "text was held back and never shown",
  arguments: "a call's arguments are no JSON object",
  unknown_tool: "a call of a tool that the request does not have",
  split: "the stream says something else than the whole answer",
};

const $ = (id) => document.getElementById(id);
let examples = [];

/** An element with properties and children; text is never read as HTML. */
function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

async function ask(path, body) {
  const headers = { "content-type": "application/json" };
  if ($("key").value) headers.authorization = `Bearer ${$("key").value}`;
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`playground/${path}`, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error?.message ?? `status ${response.status}`);
  return answer;
}

function configurations() {
  const sides = [...document.querySelectorAll(".configuration")].filter((one) => one.dataset.side === "a" || $("compare").checked);
  return sides.map((side) => {
    const value = (name) => side.querySelector(`[name=${name}]`).value;
    return {
      tool_call_parser: value("tool_call_parser") || null,
      reasoning_parser: value("reasoning_parser") || null,
      template: value("template") || null,
      answers: value("answers"),
      size: Number(value("size")) || 1,
    };
  });
}

function output() {
  const text = $("output").value;
  if (!text) return null;
  if (!/^\s*\[[\d\s,]+\]\s*$/.test(text)) return text;
  return JSON.parse(text);
}

/** Tokens in runs of one kind; `other` are those of the other configuration. */
function tokens(list, kindOf, words, other) {
  const box = make("div", { className: "text", tabIndex: 0 });
  let run = null;
  let before = null;
  list.forEach((token, place) => {
    const kind = kindOf(token);
    if (kind !== before) {
      run = make("span", { className: `run ${kind}` }, make("span", { className: "only-heard", textContent: ` ${words[kind]}: ` }));
      box.append(run);
      before = kind;
    }
    const differs = other?.[place] !== undefined && kindOf(other[place]) !== kind;
    const shown = make("span", {
      className: differs ? "token differs" : "token",
      title: `${token.id} · ${words[kind]}`,
      textContent: token.text.replaceAll("\n", "↵\n"),
    });
    if (differs) shown.append(make("span", { className: "only-heard", textContent: " (read otherwise) " }));
    run.append(shown);
  });
  return box;
}

function table(heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((text) => make("td", { textContent: text }))));
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { className: "scroll", tabIndex: 0 }, whole);
}

function answer(part, explained, other) {
  part.append(make("h3", { textContent: "Output" }), tokens(explained.tokens, (token) => token.kind, KINDS, other?.tokens));
  if (other) {
    const count = explained.tokens.filter((token, place) => token.kind !== other.tokens[place]?.kind).length;
    part.append(make("p", { className: "compared", textContent: `${count} of ${explained.tokens.length} tokens are read otherwise by the other configuration.` }));
  }
  part.append(make("h3", { textContent: "Audit" }));
  const found = explained.findings.map((kind) => make("li", { className: "problem", textContent: `${kind}: ${FINDINGS[kind] ?? ""}` }));
  part.append(found.length ? make("ul", { className: "findings" }, ...found) : make("p", { className: "findings", textContent: "Nothing found." }));
  part.append(make("h3", { textContent: "Answer in one piece" }), make("pre", { className: "text whole", textContent: JSON.stringify(explained.whole, null, 2) }));
  if (explained.streamed.error || explained.differs.length) {
    part.append(make("h3", { className: "problem", textContent: `Streamed, it differs: ${explained.differs.join(", ")}` }));
    part.append(make("pre", { className: "text", textContent: JSON.stringify(explained.streamed, null, 2) }));
  }
  part.append(make("h3", { textContent: `Stream: ${explained.deltas.length} chunks` }));
  part.append(table(["tokens", "delta", "state, bytes"], explained.deltas.map((one) => [
    `${one.tokens[0]}–${one.tokens[1] - 1}`,
    JSON.stringify(one.delta) + (one.finish_reason ? ` ${one.finish_reason}` : ""),
    String(one.state_bytes),
  ])));
}

function prompt(part, explained) {
  part.append(make("h3", { textContent: `Prompt: ${explained.count} tokens` }));
  part.append(tokens(explained.tokens, (token) => (token.special ? "special" : "plain"), { special: "special token", plain: "text" }));
  if (explained.tokens.length < explained.count) part.append(make("p", { textContent: `The first ${explained.tokens.length} are shown.` }));
  const lost = explained.lost.length ? `Words of the request that are not in the prompt: ${explained.lost.join(", ")}` : "Every word of the request is in the prompt.";
  part.append(make("p", { className: explained.lost.length ? "lost problem" : "lost", textContent: lost }));
}

function show(found) {
  const [one, two] = found;
  $("results").replaceChildren(...found.map((explained, place) => {
    const part = make("section", { className: "result" }, make("h2", { textContent: `Configuration ${"AB"[place]}` }));
    if (explained.error) {
      part.append(make("p", { className: "problem", textContent: explained.error }));
      return part;
    }
    const other = two && (place ? one : two).answer;
    if (explained.answer) answer(part, explained.answer, other);
    prompt(part, explained.prompt);
    return part;
  }));
}

async function explain(event) {
  event.preventDefault();
  $("status").textContent = "Working…";
  try {
    const body = { request: JSON.parse($("request").value), output: output(), configurations: configurations() };
    const { configurations: found } = await ask("explain", body);
    show(found);
    $("status").textContent = `Done: ${found.map((one, place) => `${"AB"[place]} ${one.error ? "failed" : `${one.answer?.findings.length ?? 0} findings`}`).join(", ")}.`;
  } catch (error) {
    $("status").textContent = `It failed: ${error.message}`;
  }
}

function pick() {
  const example = examples[$("example").value];
  if (!example) return;
  $("output").value = example.output;
  const side = document.querySelector('.configuration[data-side="a"]');
  for (const name of ["tool_call_parser", "reasoning_parser"]) side.querySelector(`[name=${name}]`).value = example[name] ?? "";
}

async function choices() {
  if (examples.length) return;
  try {
    const found = await ask("choices");
    $("model").textContent = found.model;
    examples = found.examples;
    $("request").value ||= JSON.stringify(found.request, null, 2);
    $("example").append(...examples.map((one, place) => make("option", { value: String(place), textContent: one.title })));
    for (const side of document.querySelectorAll(".configuration")) {
      const fill = (name, values) => side.querySelector(`[name=${name}]`).append(...values.map((value) => make("option", { textContent: value })));
      fill("tool_call_parser", found.tool_call_parsers);
      fill("reasoning_parser", found.reasoning_parsers);
      fill("template", found.templates);
      for (const [name, value] of Object.entries(found.configured)) side.querySelector(`[name=${name}]`).value = value ?? "";
    }
    $("status").textContent = "Ready.";
  } catch (error) {
    $("status").textContent = `No choices: ${error.message}`;
  }
}

for (const side of document.querySelectorAll(".configuration")) side.append($("configuration").content.cloneNode(true));
$("form").addEventListener("submit", explain);
$("example").addEventListener("change", pick);
$("key").addEventListener("change", choices);
choices();

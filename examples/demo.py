"""``make demo``: the whole round trip, shown step by step.

Starts the service on port 8100 and the scripted token engine on port 8200,
sends chat requests through render, generate and derender, plain, with
reasoning and with a tool call, whole and streamed. Then, with a model that
takes images on ports 8101 and 8201, a picture goes in, and its tokens come
out. All servers are stopped again. With ``--keep`` the first two stay until Ctrl-C, to be tried by hand.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from examples import picture
from examples.processes import started, wait_for_interrupt

ROOT = Path(__file__).resolve().parents[1]
SERVICE, ENGINE = "http://127.0.0.1:8100", "http://127.0.0.1:8200"
VISION_SERVICE, VISION_ENGINE = "http://127.0.0.1:8101", "http://127.0.0.1:8201"
MODEL = "qwen3"
VISION_MODEL = "qwen2.5-vl"
# The name in the API page's example: it is served too, so that the example runs unchanged.
EXAMPLE_MODEL = "meta-llama/Llama-3.2-1B-Instruct"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SCENES: list[tuple[str, dict[str, Any]]] = [
    (
        "Plain text",
        {"messages": [{"role": "user", "content": "Hello there"}], "chat_template_kwargs": {"enable_thinking": False}},
    ),
    ("Reasoning", {"messages": [{"role": "user", "content": "Why is the sky blue? Think."}]}),
    ("A tool call", {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [WEATHER]}),
]
console = Console(highlight=False, soft_wrap=True)


def post(client: httpx.Client, url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post and return the JSON answer; an error ends the demo with its text."""
    response = client.post(url, json=body)
    if response.status_code != 200:
        sys.exit(f"{url} answered {response.status_code}: {response.text}")
    answer: dict[str, Any] = response.json()
    return answer


def render(client: httpx.Client, request: dict[str, Any]) -> dict[str, Any]:
    """Step 1, shown with the prompt that came out of the chat template."""
    rendered = post(client, f"{SERVICE}/v1/chat/completions/render", request)
    ids = rendered["token_ids"]
    prompt = post(client, f"{SERVICE}/detokenize", {"tokens": ids})["prompt"]
    console.print(f"[bold]1. render[/]    {len(ids)} token ids: {_ids(ids)}")
    console.print(Panel(escape(prompt.rstrip()), title="the prompt they stand for", title_align="left", style="dim"))
    return rendered


def show_whole(client: httpx.Client, request: dict[str, Any]) -> None:
    """Render, generate, derender, each in one call."""
    rendered = render(client, request)
    generated = post(client, f"{ENGINE}/inference/v1/generate", rendered)
    ids = generated["choices"][0]["token_ids"]
    console.print(f"[bold]2. generate[/]  {len(ids)} token ids: {_ids(ids)}")
    answer = post(
        client,
        f"{SERVICE}/v1/chat/completions/derender",
        {
            "generate_response": generated,
            "prompt_tokens": len(rendered["token_ids"]),
            "prompt_token_ids": rendered["token_ids"],
            "chat_request": request,
        },
    )
    choice = answer["choices"][0]
    message = choice["message"]
    total = answer["usage"]["total_tokens"]
    console.print(f"[bold]3. derender[/]  finish_reason {choice['finish_reason']}, {total} tokens in all")
    for part in ("reasoning", "content"):
        if message.get(part):
            console.print(f"   {part}: [green]{escape(message[part].strip())}[/]")
    for call in message.get("tool_calls", []):
        function = call["function"]
        console.print(f"   tool call: [green]{escape(function['name'])}({escape(function['arguments'])})[/]")


def show_stream(client: httpx.Client, request: dict[str, Any]) -> None:
    """The same, streamed: one derender call for each chunk of the engine, the state carried by this client."""
    request = {**request, "stream": True, "stream_options": {"include_usage": True}}
    rendered = render(client, request)
    state, calls, state_bytes, deltas = None, 0, 0, []
    with client.stream("POST", f"{ENGINE}/inference/v1/generate", json=rendered) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            answer = post(
                client,
                f"{SERVICE}/v1/chat/completions/derender",
                {
                    "stream": True,
                    "generate_chunk": json.loads(line.removeprefix("data: ")),
                    "stream_state": state,
                    "prompt_tokens": len(rendered["token_ids"]),
                    "prompt_token_ids": rendered["token_ids"],
                    "chat_request": request,
                },
            )
            state = answer["stream_state"]
            calls, state_bytes = calls + 1, len(json.dumps(state))
            deltas += [choice["delta"] for choice in answer["chunk"]["choices"]]
    console.print(f"[bold]2. generate and 3. derender[/]  {calls} chunks, {state_bytes} bytes of state at the end:")
    for delta in deltas:
        shown = {key: value for key, value in delta.items() if value}
        if shown:
            console.print(f"   [green]{escape(json.dumps(shown, ensure_ascii=False))}[/]")


def show_picture(client: httpx.Client) -> None:
    """A picture through all three ways to give it to an engine, and the answer of an engine that got its features."""
    data = picture.drawn()
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    request = {"model": VISION_MODEL, "messages": [{"role": "user", "content": parts}]}
    console.print(f"a PNG of {picture.WIDTH} x {picture.HEIGHT} pixels, {len(data):,} bytes:")
    console.print(picture.shown(data))
    rendered = post(client, f"{VISION_SERVICE}/v1/chat/completions/render", request)
    ids, features = rendered["token_ids"], rendered["features"]
    place = features["mm_placeholders"]["image"][0]
    start, end = place["offset"], place["offset"] + place["length"]
    console.print(f"[bold]1. render[/]    {len(ids)} token ids, {place['length']} of them the picture's:")
    console.print(f"   {_ids(ids[:start])} [cyan]{_ids(ids[start:end])}[/] {_ids(ids[end:])}")
    console.print(f"   its hash: {features['mm_hashes']['image'][0][:32]}...")
    for name, (dtype, shape, raw) in _tensors(features["kwargs_data"]["image"][0]).items():
        console.print(f"   tensor {name}: {dtype} {shape}, {len(raw):,} bytes: {raw[:8].hex(' ')} ...")
    for payload in ("none", "content_parts"):
        other = post(client, f"{VISION_SERVICE}/v1/chat/completions/render", {**request, "mm_payload": payload})
        told = "hash and place only" if payload == "none" else "the picture as it came, for the engine to read"
        console.print(f'   with mm_payload "{payload}": {len(other["token_ids"])} token ids, {told}')
    generated = post(client, f"{VISION_ENGINE}/inference/v1/generate", rendered)
    console.print(
        f"[bold]2. generate[/]  the engine checked them, and wrote {len(generated['choices'][0]['token_ids'])} ids"
    )
    body = {"generate_response": generated, "prompt_tokens": len(ids), "chat_request": request}
    answer = post(client, f"{VISION_SERVICE}/v1/chat/completions/derender", body)
    console.print(f"[bold]3. derender[/]  [green]{escape(answer['choices'][0]['message']['content'])}[/]")


def _tensors(item: str) -> dict[str, tuple[str, list[int], bytes]]:
    """Type, shape and bytes of each tensor of an image, as an engine reads them."""
    decoded = msgspec.msgpack.decode(base64.b64decode(item))
    found = {name: entry["data"] for name, entry in decoded.items()}
    return {name: (dtype, shape, bytes(raw.data)) for name, (dtype, shape, raw) in sorted(found.items())}


def _ids(ids: list[int]) -> str:
    return " ".join(map(str, ids[:12])) + (" ..." if len(ids) > 12 else "")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--keep", action="store_true", help="leave both servers running until Ctrl-C")
    keep = arguments.parse_args().keep
    from infra.models import build
    from tests.images.recorded import build_models

    folder = build(MODEL, ROOT / "build" / "models")
    vision_folder = ROOT / "build" / "image-models" / VISION_MODEL
    build_models(folder, vision_folder.parent)
    python = sys.executable
    service = [python, "-m", "handlers.commands", "serve", str(folder)]
    service += ["--served-model-name", MODEL, EXAMPLE_MODEL, "--tool-call-parser", "hermes"]
    service += ["--enable-auto-tool-choice", "--reasoning-parser", "qwen3"]
    engine = [python, "examples/scripted_engine.py", "--model", str(folder)]
    engine += ["--served-model-name", MODEL, EXAMPLE_MODEL]
    with started("the service", 8100, service), started("the scripted engine", 8200, engine):
        with httpx.Client(timeout=60) as client:
            for title, request in SCENES:
                console.rule(f"[bold]{title}")
                show_whole(client, {"model": MODEL, **request})
            for title, request in SCENES[2:]:
                console.rule(f"[bold]{title}, streamed")
                show_stream(client, {"model": MODEL, **request})
        vision = [python, "-m", "handlers.commands", "serve", str(vision_folder), "--served-model-name", VISION_MODEL]
        viewer = [python, "examples/scripted_engine.py", "--model", str(vision_folder)]
        viewer += ["--served-model-name", VISION_MODEL]
        console.rule("[bold]A picture")
        with (
            started("the service", 8101, vision),
            started("the scripted engine", 8201, viewer),
            httpx.Client(timeout=60) as client,
        ):
            show_picture(client)
        for example in ("api_example.py", "api_stream_example.py"):
            console.rule(f"[bold]examples/{example}, the API page's own client")
            subprocess.run([python, f"examples/{example}"], cwd=ROOT, check=True)
        if keep:
            console.print(f"The service is on {SERVICE}, the engine on {ENGINE}; Ctrl-C stops both.")
            wait_for_interrupt()


if __name__ == "__main__":
    main()

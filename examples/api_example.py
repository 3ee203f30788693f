"""The non-streaming example of vLLM's derender API page, against the ports of ``make demo``.

Render, generate, derender: three posts. It is what a client of vLLM's own
servers looks like, and it runs unchanged here.
"""

import httpx

MODEL = "meta-llama/Llama-3.2-1B-Instruct"
RENDER = "http://localhost:8100"  # vllm launch render ...
ENGINE = "http://localhost:8200"  # token-in / token-out engine

chat_request = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is 2+2?"}],
    "max_tokens": 32,
}

with httpx.Client(timeout=60.0) as client:
    # 1. Render: request -> token IDs (GPU less)
    generate_request = client.post(f"{RENDER}/v1/chat/completions/render", json=chat_request).json()
    prompt_token_ids = generate_request["token_ids"]

    # 2. Generate: token IDs -> token IDs (token-in / token-out engine)
    generate_response = client.post(f"{ENGINE}/inference/v1/generate", json=generate_request).json()

    # 3. Derender: token IDs -> ChatCompletionResponse (GPU less)
    response = client.post(
        f"{RENDER}/v1/chat/completions/derender",
        json={
            "model": MODEL,
            "generate_response": generate_response,
            "prompt_tokens": len(prompt_token_ids),
            "prompt_token_ids": prompt_token_ids,
            "chat_request": chat_request,
        },
    ).json()

print(response["choices"][0]["message"]["content"])

#!/bin/sh
# What the Lambda Web Adapter runs: the relay as a server, on the port that the adapter asks.
# Lambda's own packages (boto3, for a model in S3) come last, as they do in its Python runtime.
export PYTHONPATH="${LAMBDA_TASK_ROOT:-.}:${LAMBDA_RUNTIME_DIR:-/var/runtime}${PYTHONPATH:+:$PYTHONPATH}"
# On Lambda it is the function's address that lets callers in; in a container nothing else does.
if [ -z "${DERENDER_API_KEY:-}" ] && [ -z "${AWS_LAMBDA_RUNTIME_API:-}" ] && [ "${RELAY_HOST:-127.0.0.1}" != 127.0.0.1 ]; then
  echo "derender: there is no key (DERENDER_API_KEY): whoever reaches ${RELAY_HOST} may use this relay and its engines" >&2
fi
# Connections outlive the adapter's own wait for the next request: it, not we, closes an idle one.
exec python3 -m uvicorn handlers.relay:app --host "${RELAY_HOST:-127.0.0.1}" --port "${AWS_LWA_PORT:-8080}" \
  --log-level warning --timeout-keep-alive 75

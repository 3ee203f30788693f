# The Lambda functions and the server as container images, from the artefacts of `make package`: run that first.
#
#     docker build --target derender --build-arg ARCH=arm64 --platform linux/arm64 -t derender .
#     docker run -p 9000:8080 -v /path/to/bundle:/model:ro -e DERENDER_MODEL=/model derender
#     curl --data-binary @events/derender-chat.json http://127.0.0.1:9000/2015-03-31/functions/function/invocations
#
#     docker build --target relay --build-arg ARCH=arm64 --platform linux/arm64 -t relay .
#     docker run -p 8080:8080 -v /path/to/bundle:/model:ro -e DERENDER_MODEL=/model -e DERENDER_ENGINE_URL=http://... relay
#
#     docker build --target serve --build-arg ARCH=arm64 --platform linux/arm64 -t derender-serve .
#     docker run -p 8000:8000 -v /path/to/model:/model:ro derender-serve
#
# BuildKit builds the target alone. The older builder also builds all targets above it, so they stand in the order of what
# they need.
#
# Names with tags move. Where an image must be the same tomorrow, give the digests that your registry shows for them:
# --build-arg BASE=public.ecr.aws/lambda/python:3.13@sha256:... (SERVER, ADAPTER alike). None are written here, because
# those that a copy of this file would hold get no security updates.
ARG BASE=public.ecr.aws/lambda/python:3.13
ARG SERVER=python:3.13-slim
ARG ADAPTER=public.ecr.aws/awsguru/aws-lambda-adapter:1.0.0

# SnapStart takes zips only: on Lambda an image starts cold.
FROM ${BASE} AS derender
ARG ARCH=arm64
ADD dist/images/derender-${ARCH}.tar.gz ${LAMBDA_TASK_ROOT}/
CMD ["handlers.derender.handler"]

FROM ${BASE} AS render
ARG ARCH=arm64
ADD dist/images/render-${ARCH}.tar.gz ${LAMBDA_TASK_ROOT}/
CMD ["handlers.render.handler"]

FROM ${BASE} AS render-images
ARG ARCH=arm64
ADD dist/images/render-images-${ARCH}.tar.gz ${LAMBDA_TASK_ROOT}/
CMD ["handlers.render_images.handler"]

# The server, without anything of Lambda's. It writes nowhere: a model in S3 needs a /tmp.
FROM ${SERVER} AS serve
ARG ARCH=arm64
ADD dist/images/serve-${ARCH}.tar.gz /app/
WORKDIR /app
ENV PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["python3", "-m", "handlers.commands", "serve"]
CMD ["/model", "--host", "0.0.0.0", "--port", "8000"]

# The relay is a web server. On Lambda the adapter in its image, an extension, stands before it; elsewhere it does nothing.
FROM ${ADAPTER} AS adapter

FROM ${BASE} AS relay
COPY --from=adapter /lambda-adapter /opt/extensions/lambda-adapter
ARG ARCH=arm64
ADD dist/images/relay-${ARCH}.tar.gz ${LAMBDA_TASK_ROOT}/
ENV AWS_LWA_PORT=8080 AWS_LWA_INVOKE_MODE=response_stream AWS_LWA_READINESS_CHECK_PROTOCOL=tcp RELAY_HOST=0.0.0.0
ENTRYPOINT ["/bin/sh", "run.sh"]

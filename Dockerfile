# The functions as container images, from the same artefacts as the zips: run `make package` first.
#
#     docker build --target derender --build-arg ARCH=arm64 --platform linux/arm64 -t derender .
#     docker run -p 9000:8080 -v /path/to/bundle:/model:ro -e DERENDER_MODEL=/model derender
#     curl --data-binary @events/derender-chat.json http://127.0.0.1:9000/2015-03-31/functions/function/invocations
#
#     docker build --target relay --build-arg ARCH=arm64 --platform linux/arm64 -t relay .
#     docker run -p 8080:8080 -v /path/to/bundle:/model:ro -e DERENDER_MODEL=/model -e DERENDER_ENGINE_URL=http://... relay
#
# The relay is a web server. On Lambda the adapter in its image, an extension, stands before it; elsewhere it does nothing.
# SnapStart takes zips only: on Lambda an image starts cold.
ARG BASE=public.ecr.aws/lambda/python:3.13
ARG ADAPTER=public.ecr.aws/awsguru/aws-lambda-adapter:1.0.0

FROM ${ADAPTER} AS adapter

FROM ${BASE} AS render-files
ARG ARCH=arm64
COPY dist/render-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS render-images-files
ARG ARCH=arm64
COPY dist/render-images-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS derender-files
ARG ARCH=arm64
COPY dist/derender-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS relay-files
ARG ARCH=arm64
COPY dist/relay-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS relay
COPY --from=adapter /lambda-adapter /opt/extensions/lambda-adapter
COPY --from=relay-files /function ${LAMBDA_TASK_ROOT}
ENV AWS_LWA_PORT=8080 AWS_LWA_INVOKE_MODE=response_stream AWS_LWA_READINESS_CHECK_PROTOCOL=tcp RELAY_HOST=0.0.0.0
ENTRYPOINT ["/bin/sh", "run.sh"]

FROM ${BASE} AS render
COPY --from=render-files /function ${LAMBDA_TASK_ROOT}
CMD ["handlers.render.handler"]

FROM ${BASE} AS render-images
COPY --from=render-images-files /function ${LAMBDA_TASK_ROOT}
CMD ["handlers.render_images.handler"]

FROM ${BASE} AS derender
COPY --from=derender-files /function ${LAMBDA_TASK_ROOT}
CMD ["handlers.derender.handler"]

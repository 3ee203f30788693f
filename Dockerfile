# The functions as container images, from the same artefacts as the zips: run `make package` first.
#
#     docker build --target derender --build-arg ARCH=arm64 --platform linux/arm64 -t derender .
#     docker run -p 9000:8080 -v /path/to/bundle:/model:ro -e DERENDER_MODEL=/model derender
#     curl --data-binary @events/derender-chat.json http://127.0.0.1:9000/2015-03-31/functions/function/invocations
#
# SnapStart takes zips only: on Lambda an image starts cold.
ARG BASE=public.ecr.aws/lambda/python:3.13

FROM ${BASE} AS render-files
ARG ARCH=arm64
COPY dist/render-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS derender-files
ARG ARCH=arm64
COPY dist/derender-${ARCH}.zip /tmp/function.zip
RUN python3 -m zipfile -e /tmp/function.zip /function

FROM ${BASE} AS render
COPY --from=render-files /function ${LAMBDA_TASK_ROOT}
CMD ["handlers.render.handler"]

FROM ${BASE} AS derender
COPY --from=derender-files /function ${LAMBDA_TASK_ROOT}
CMD ["handlers.derender.handler"]

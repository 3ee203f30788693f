# Everything a newcomer needs: `make demo` and `make test` do their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
SAM := .venv-sam
VLLM := .venv-vllm
CLIENTS := .venv-clients
SLICE_SOURCES := $(shell find infra/slice -name '*.py' 2>/dev/null) $(wildcard requirements/vllm-*.txt)

.PHONY: setup slices sam clients demo demo-vllm test test-docker lint format bench package deploy parity fuzz soak lock clean

setup: $(STAMP)

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The lock is complete, so --no-deps installs exactly it: that is how vLLM's GPU stack stays out.
$(VENV)/.requirements: $(VENV)/.created requirements/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.slice: $(VENV)/.requirements $(SLICE_SOURCES)
	@rm -rf build/slice
	$(BIN)/python -m infra.slice build --out build/slice
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall build/slice/vllm-*.whl
	@touch $@

# The parsers of older versions of vLLM, beside the newest one's: each in build/slices/<version>.
slices: $(VENV)/.slices

$(VENV)/.slices: $(STAMP)
	$(BIN)/python -m infra.slice build --older --out build/slice --unpack build/slices
	@touch $@

$(STAMP): $(VENV)/.slice pyproject.toml client/pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./client
	@touch $@

# The SAM CLI pins its own dependencies hard, so it has an environment of its own. It brings the Lambda emulator too.
sam: $(SAM)/.stamp

$(SAM)/.stamp: $(STAMP) requirements/sam.txt
	$(BIN)/uv venv -q --clear --no-project --python $(BIN)/python $(SAM)
	$(BIN)/uv pip install -q --python $(SAM)/bin/python --no-deps --require-hashes -r requirements/sam.txt
	@touch $@

# The client libraries that the relay is tested with: those of Python in an environment of their own, the AI SDK by npm.
clients: $(CLIENTS)/.stamp tests/clients/node/node_modules/.stamp

$(CLIENTS)/.stamp: $(STAMP) requirements/clients.txt
	$(BIN)/uv venv -q --clear --no-project --python $(BIN)/python $(CLIENTS)
	$(BIN)/uv pip install -q --python $(CLIENTS)/bin/python --no-deps --require-hashes -r requirements/clients.txt
	@touch $@

tests/clients/node/node_modules/.stamp: tests/clients/node/package-lock.json
	cd tests/clients/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

demo: setup
	$(BIN)/python -m examples.demo $(ARGS)

# A real engine on the CPU, behind the relay: 3.5 GB in an environment of its own.
demo-vllm: setup $(VLLM)/.stamp
	$(BIN)/python -m examples.vllm_engine.demo --engine-python $(VLLM)/bin/python $(ARGS)

# What the CPU build declares and a text model has no use for clashes with its torch.
$(VLLM)/.stamp: examples/vllm_engine/requirements.txt
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip install -q --disable-pip-version-check -r $<
	$(VLLM)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

# Full vLLM beside ours: the engine's environment, the additional packages of vLLM's newer version, and the published wheel.
# DERENDER_VLLM_PYTHON names another environment, which is then used unchanged (and DERENDER_VLLM_PYTHONPATH other code of vLLM).
# VERSION is another version of vLLM: its full code against its slice.
parity: setup $(if $(VERSION),slices) $(if $(DERENDER_VLLM_PYTHON),,$(VLLM)/.parity)
	$(BIN)/python -m tests.parity $(if $(VERSION),--version $(VERSION) --only parsers) $(ARGS)

$(VLLM)/.parity: $(VLLM)/.stamp tests/parity/requirements.txt
	$(VLLM)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r tests/parity/requirements.txt
	@touch $@

# Hostile requests, hours if wanted: make fuzz ARGS="--requests 1000000 --seconds 20000 --seed 7"
fuzz: setup
	$(BIN)/python -m tests.fuzz $(ARGS)

# One server under everything at once, for ten minutes: make soak ARGS="--seconds 3600 --streams 400"
soak: setup
	$(BIN)/python -m tests.soak $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two workers: what a small machine has. Slow tests are spread by group, so that an application is built once. Three runs: a
# worker keeps the models of the applications that it built, and those of all areas together would fill such a machine.
ANSWERS := $(addprefix tests/,checkpoint conformance dialects equality golden images reports slice)
SERVERS := $(addprefix tests/,handlers relay render tokenizer turns work)
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup
test: lint sam slices clients
	$(PYTEST) $(ANSWERS)
	$(PYTEST) $(SERVERS)
	$(PYTEST) $(addprefix --ignore=,tests/docker $(ANSWERS) $(SERVERS))

# Functions and server in containers: needs Docker, and says in one sentence what is missing.
test-docker: setup sam
	$(BIN)/python -m tests.docker $(ARGS)

# One zip a function and architecture (ARCH=arm64 for one of them); MODEL=DIR packages a model with them.
package: setup slices
	$(BIN)/python -m infra.package $(if $(MODEL),--model $(MODEL)) $(if $(ARCH),--arch $(ARCH)) $(ARGS)

# STAGE is a profile of samconfig.toml, WITH the parameters that it leaves open: make deploy WITH="ModelBucket=b ..."
deploy: package sam
	$(BIN)/python -m infra.deploy --stage $(or $(STAGE),default) $(if $(ARCH),--arch $(ARCH)) $(WITH)

bench: setup slices sam
	$(BIN)/python -m benchmarks $(ARGS)

# Writes the complete locks from requirements/*.in, and the notices of third-party code in the packages.
lock: setup
	cd requirements && ../$(BIN)/uv pip compile runtime.in --excludes excludes.in --excludes runtime-excludes.in --generate-hashes --universal \
		--python-version 3.11 --no-header -q -o runtime.txt
	cd requirements && ../$(BIN)/uv pip compile relay.in -c runtime.txt --excludes excludes.in --excludes runtime-excludes.in \
		--generate-hashes --universal --python-version 3.11 --no-header -q -o relay.txt
	cd requirements && ../$(BIN)/uv pip compile fast.in --generate-hashes --universal --python-version 3.11 --no-header -q -o fast.txt
	cd requirements && ../$(BIN)/uv pip compile server.in -c relay.txt --excludes excludes.in --excludes runtime-excludes.in \
		--generate-hashes --universal --python-version 3.11 --no-header -q -o server.txt
	cd requirements && ../$(BIN)/uv pip compile dev.in -c server.txt --excludes excludes.in --generate-hashes --universal \
		--python-version 3.11 --no-header -q -o dev.txt
	cd requirements && ../$(BIN)/uv pip compile images.in -c dev.txt --excludes excludes.in --generate-hashes --universal \
		--python-version 3.11 --no-header -q -o images.txt
	cd requirements && ../$(BIN)/uv pip compile clients.in --generate-hashes --universal --python-version 3.11 --no-header -q -o clients.txt
	cd requirements && ../$(BIN)/uv pip compile sam.in --generate-hashes --universal --python-version 3.11 --no-header -q -o sam.txt
	$(BIN)/python -m infra.licences

clean:
	rm -rf $(VENV) $(SAM) $(VLLM) $(CLIENTS) tests/clients/node/node_modules build dist .mypy_cache .ruff_cache .pytest_cache

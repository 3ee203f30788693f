# Everything a newcomer needs: `make demo` and `make test` do their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
SLICE_SOURCES := $(shell find infra/slice -name '*.py' -o -name '*.txt' 2>/dev/null) requirements/vllm.txt

.PHONY: setup demo test lint format bench package parity lock clean

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
	$(BIN)/python -m infra.slice build --fetch --out build/slice
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall build/slice/vllm-*.whl
	@touch $@

$(STAMP): $(VENV)/.slice pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(BIN)/python examples/demo.py $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two workers: what a small machine has. Slow tests are spread by group, so that an application is built once.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup

bench: setup
	$(BIN)/python -m benchmarks

# Writes the complete locks anew from requirements/*.in.
lock: setup
	cd requirements && ../$(BIN)/uv pip compile runtime.in --excludes excludes.in --excludes runtime-excludes.in --generate-hashes --universal \
		--python-version 3.11 --no-header -q -o runtime.txt
	cd requirements && ../$(BIN)/uv pip compile dev.in -c runtime.txt --excludes excludes.in --generate-hashes --universal \
		--python-version 3.11 --no-header -q -o dev.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache

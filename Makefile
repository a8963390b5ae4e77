# The two commands: `make demo` and `make test`. Everything else serves them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A CPU build of torch may lie beside the package index; pip knows where, uv has to be told.
FIND_LINKS := $(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null || printenv PIP_FIND_LINKS)
# Where Python may not write bytecode, every start would compile torch and click again.
UV := UV_FIND_LINKS="$(FIND_LINKS)" UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 $(BIN)/uv
UV_VERSION := 0.13.7

MINDSPORE := .venv-mindspore
# More than cores: many tests wait for servers to start or to end.
WORKERS = $(shell expr $$(nproc) + 2)

.PHONY: setup setup-dev bytecode mindspore system demo test test-strict test-full tests lint style types bench lock clean

setup: $(VENV)/.setup
setup-dev: $(VENV)/.setup-dev

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# Stamps, so that a second run needs no network.
$(VENV)/.setup: pyproject.toml requirements/demo.txt | $(BIN)/uv
	$(UV) pip install --quiet --python $(BIN)/python -r requirements/demo.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.setup-dev: pyproject.toml requirements/dev.txt | $(VENV)/.setup
	$(UV) pip install --quiet --python $(BIN)/python -r requirements/dev.txt
	touch $@

# An environment of its own: MindSpore wants a numpy that torch's does not.
mindspore: $(MINDSPORE)/.setup
$(MINDSPORE)/.setup: requirements/mindspore.txt | $(BIN)/uv
	$(UV) venv --quiet --clear --python $(BIN)/python $(MINDSPORE)
	$(UV) pip install --quiet --python $(MINDSPORE)/bin/python -r requirements/mindspore.txt
	touch $@

# Each time, since a stale file is compiled anew by every process where none may write bytecode.
bytecode: setup
	$(BIN)/python -m compileall -q src/jumar

system:
	sh tools/system-packages.sh

demo: bytecode
	$(BIN)/jumar demo

# What fails is tried once more, alone; up to three that then pass are listed as flaky.
test: setup-dev mindspore system style
	$(MAKE) --no-print-directory --jobs=2 types tests

tests: bytecode
	$(BIN)/python tools/run_tests.py --numprocesses $(WORKERS) --dist worksteal

# Forgives nothing.
test-strict: setup-dev bytecode mindspore system lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# The full sizes, hours of work; an interrupted run continues where it stopped.
test-full: setup-dev bytecode mindspore system
	sh tools/system-packages.sh bench
	$(BIN)/python tools/full_test.py

lint: style types

style: setup-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/vermin --quiet --no-tips --violations --eval-annotations -t=3.7- src/jumar/launch src/jumar/inject

types: setup-dev
	$(BIN)/basedpyright

bench: setup-dev bytecode
	sh tools/system-packages.sh bench
	for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

lock: | $(BIN)/uv
	$(UV) pip compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url --python-version 3.11 --all-extras pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(UV) pip compile --quiet --no-header --no-annotate --no-emit-index-url --python-version 3.11 -c requirements/dev.txt pyproject.toml requirements/demo.in -o requirements/demo.txt
	$(UV) pip compile --quiet --no-header --no-annotate --no-emit-index-url --python-version 3.11 requirements/mindspore.in -o requirements/mindspore.txt
	sed -i 's/+cpu$$//' requirements/*.txt

clean:
	rm -rf $(VENV) $(MINDSPORE)

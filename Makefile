# Needs only make and Python 3.11 to 3.13 with venv; nothing here needs root. All is installed into .venv.
#
#   make demo        set up, then run a gang job of 16 ranks on a local cluster of four pretended 8-GPU machines
#   make test-fast   the quick part of the tests (under a minute)
#   make test        all tests but the long ones          make test-full   the long ones too
#   make check       format, lint, types, import contracts, tidy tests
#   make bench       measure this machine                 make venv        only set up
#   make clean       remove what these made

VENV ?= .venv
# The first of these that starts, is of a supported version and can make a virtual environment.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null && echo "$$p" && break; done)

BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Two workers; tests/conftest.py says which tests stay together.
PARALLEL ?= -n 2
FAST := $(wildcard tests/unit tests/contract tests/tidy tests/sim)

# Kernels are compiled once and kept here, for the tests, the demo and the benchmarks alike.
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba
export PATH := $(BIN):$(PATH)

.PHONY: demo test test-fast test-full check bench venv clean
.DEFAULT_GOAL := venv

venv: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11, 3.12 or 3.13 with venv and ensurepip on PATH;" \
		"install one (Debian: apt install python3-venv) or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "make: installing gsched and its test tools into $(VENV) ($(PYTHON))" >&2
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(STAMP)
	@sh docs/examples/demo.sh

test: $(STAMP)
	$(PYTEST) $(PARALLEL) -m 'not full' tests

test-fast: $(STAMP)
	$(PYTEST) $(PARALLEL) -m 'not full' $(FAST)

# "make test test-full" runs every test once.
test-full: test
	$(PYTEST) $(PARALLEL) -m full tests

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) tests/tidy

bench: $(STAMP)
	@$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) .numba .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info

# What can be done with this project. Everything sets up what it needs itself; `make` alone says what there is.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
SOURCES := src specs bench examples tests scripts

.PHONY: help setup demo test lint types layers tidy unit torture bench docs lock clean

help:  ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Make the environment in .venv (with uv or pip; again only when the pins change)

$(READY): requirements.lock pyproject.toml scripts/setup
	@scripts/setup $(VENV)
	@touch $@

demo: setup  ## Eight agents write, some are killed, a Spark pipeline derives tables, and the verdict is printed
	@$(PYTHON) -m examples.agent_memory

test: lint types layers tidy unit  ## Everything that must hold: lint, types, layers, tests (20 minutes on 2 cores, up to 50 if they are busy)

lint: setup
	@$(VENV)/bin/ruff check $(SOURCES)
	@$(VENV)/bin/ruff format --check --quiet $(SOURCES) || { echo "run: $(VENV)/bin/ruff format $(SOURCES)"; exit 1; }

types: setup
	@$(VENV)/bin/mypy

layers: setup
	@$(VENV)/bin/lint-imports --no-logo 2>/dev/null || $(VENV)/bin/lint-imports

tidy: setup  # seconds, and what is wrong there is wrong for certain: before the tests that take long
	@$(PYTHON) -m pytest tests/tidy -q --no-header

# What races has the machine for itself; of the rest two files run at a time, and Spark's not beside the others.
unit: setup
	@scripts/run-tests $(PYTHON) two $(addprefix --ignore=tests/,tidy race spark)
	@scripts/run-tests $(PYTHON) one tests/race
	@scripts/run-tests $(PYTHON) two tests/spark

torture: setup  ## The longer proof: more commits, more seeds, more kills
	@$(PYTHON) -m pytest -m torture -s --timeout=3000

bench: setup  ## Measure, beside others, in one run: SUITE=log|mixed|tables|ingest|keys|search|sql|upkeep|spark, LAKE=uri, OPTION="key=value …", QUICK=1, SET="name=number …"
	@$(PYTHON) -m bench $(SUITE) $(if $(LAKE),--lake $(LAKE)) $(addprefix --option ,$(OPTION)) $(if $(QUICK),--quick) $(addprefix --set ,$(SET))

docs: setup  ## Write the generated pages of docs/ anew
	@$(PYTHON) -m scripts.reference

lock:  ## Pin the newest allowed versions (needs uv)
	@uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --upgrade --output-file requirements.lock

clean:  ## Remove everything that was made here
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench-results

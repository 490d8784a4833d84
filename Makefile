# One target per habit. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The torch to install first. The pin keeps a set-up repeatable; README.md says how to get a CPU-only or a CUDA build.
TORCH ?= torch==2.13.0
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: help setup browser demo test test-all fuzz faults lint types bench bench-peers dist docs clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet -e .
	touch $@

$(VENV)/.dev: $(VENV)/.ready
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

$(VENV)/.all: $(VENV)/.dev
	$(BIN)/pip install --quiet -e '.[cluster]' wandb mlflow-skinny
	touch $@

setup: $(VENV)/.dev ## create .venv and install everything that the fast tests need

browser: setup ## install the Chromium that the browser tests drive (Debian, as root)
	command -v chromium >/dev/null || apt-get install -y chromium || (apt-get update && apt-get install -y chromium)
	$(BIN)/python -c 'import playwright' 2>/dev/null || $(BIN)/pip install --quiet playwright

demo: $(VENV)/.ready ## train, score and report four objectives on coloured sprites: some minutes on two cores
	$(BIN)/unbraid demo --out demo

lint: setup ## style
	$(BIN)/ruff check unbraid tests bench
	$(BIN)/ruff format --check --quiet unbraid tests bench

types: setup ## types
	$(BIN)/mypy

test: lint types ## lint, types and the fast tests
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

test-all: $(VENV)/.all lint types ## everything, with the slow statistical, browser and cluster tests; its result goes to docs/reliability.md
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --junitxml=.pytest_cache/all.xml; \
	ended=$$?; $(BIN)/python -m tests.suite_summary .pytest_cache/all.xml --write; exit $$ended

fuzz: setup ## 24,000 damaged files, recipes, arrays and downloads against every reader; the table goes to docs/reliability.md
	$(BIN)/python -m tests.fuzz --write

faults: $(VENV)/.all ## workers, drivers, shards, ranks and Ray nodes killed, disks filled; the table goes to docs/reliability.md
	$(BIN)/python -m tests.faults --write

bench: $(VENV)/.all ## measure, print ratios, write docs/benchmarks.md
	$(BIN)/python -m bench

.bench/peers: ; $(PYTHON) -m venv $@ && $@/bin/pip install --quiet $(TORCH) && $@/bin/pip install --quiet -e . 'pythae==0.1.2'

bench-peers: .bench/peers ## our trainer against pythae's own, in an environment of its own under .bench/
	.bench/peers/bin/python -m bench.peers

dist: setup ## build wheel and sdist of what is committed into dist/, and try both in an empty environment
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	$(BIN)/pytest tests/end_to_end/test_release.py

docs: setup ## build the site into site/ without a network: open site/index.html
	$(BIN)/python docs/make.py

clean: ## remove what the targets made
	rm -rf $(VENV) build dist site docs/reference docs/api *.egg-info demo .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

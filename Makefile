# One target per task. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .bench/lowest
NEWEST := .bench/newest
# The torch to install first. The pin keeps a set-up repeatable; README.md says how to get a CPU-only or a CUDA build.
TORCH ?= torch==2.13.0
# The versions of all other packages, so that a new release of one cannot fail a check.
CONSTRAINTS := requirements/constraints.txt
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: help setup constraints browser demo check test test-all test-lowest test-newest fuzz faults lint types bench bench-peers dist docs docs-version clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

$(VENV)/.ready: pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet -c $(CONSTRAINTS) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.ready
	$(BIN)/pip install --quiet -c $(CONSTRAINTS) -e '.[dev]'
	touch $@

$(VENV)/.all: $(VENV)/.dev
	$(BIN)/pip install --quiet -c $(CONSTRAINTS) -e '.[cluster]' wandb mlflow-skinny
	touch $@

setup: $(VENV)/.dev ## create .venv with everything that the fast tests need

constraints: ## upgrade the packages in .venv and write their versions to requirements/constraints.txt
	$(BIN)/pip install --quiet --upgrade --upgrade-strategy eager -e '.[dev]' $(TORCH)
	{ head -1 $(CONSTRAINTS); $(BIN)/pip freeze --exclude-editable | grep -vE '^(torch|triton|nvidia-|cuda-)'; } > $(CONSTRAINTS).new
	mv $(CONSTRAINTS).new $(CONSTRAINTS)

browser: setup ## install the Chromium that the browser tests drive (Debian, as root)
	command -v chromium >/dev/null || apt-get install -y chromium || (apt-get update && apt-get install -y chromium)
	$(BIN)/python -c 'import playwright' 2>/dev/null || $(BIN)/pip install --quiet playwright

demo: $(VENV)/.ready ## train, score and report four objectives on coloured sprites: a few minutes on two cores
	$(BIN)/unbraid demo --out demo

lint: setup ## check style
	$(BIN)/ruff check unbraid tests bench
	$(BIN)/ruff format --check --quiet unbraid tests bench

types: setup ## check types
	$(BIN)/mypy

check: lint types ## check style, types, architecture, laws and one case of each contract: below two minutes
	$(BIN)/pytest -q -n $(WORKERS) -m "not slow" --quick-contracts tests/test_architecture.py tests/laws tests/contracts

test: lint types ## check style and types, run the fast tests: what CI runs
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

test-all: $(VENV)/.all lint types ## run all tests, slow ones too; the result is written to docs/reliability.md
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --junitxml=.pytest_cache/all.xml; \
	ended=$$?; $(BIN)/python -m tests.suite_summary .pytest_cache/all.xml --write; exit $$ended

# Torch keeps the version above: older CPU builds are no longer offered.
$(LOWEST)/.ready: pyproject.toml tests/lowest_versions.py
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m tests.lowest_versions > $(LOWEST)/pins.txt
	$(LOWEST)/bin/pip install --quiet $(TORCH)
	$(LOWEST)/bin/pip install --quiet -r $(LOWEST)/pins.txt
	$(LOWEST)/bin/pip install --quiet -c $(CONSTRAINTS) pytest pytest-xdist pytest-benchmark hypothesis beartype
	$(LOWEST)/bin/pip install --quiet --no-deps -e .
	touch $@

# Without the constraints: the newest release of every package but torch (TORCH=torch for its newest too).
$(NEWEST)/.ready: pyproject.toml
	rm -rf $(NEWEST) && $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/pip install --quiet $(TORCH)
	$(NEWEST)/bin/pip install --quiet --upgrade --upgrade-strategy eager -e '.[frames,h5,parquet,track,export]' $(TORCH)
	$(NEWEST)/bin/pip install --quiet pytest pytest-xdist pytest-benchmark hypothesis beartype
	touch $@

# $(1) is an environment
define try-versions
	$(1)/bin/pip check
	$(1)/bin/unbraid --help > /dev/null
	$(1)/bin/unbraid train vae_colour_sprites --set budget.steps=20 --quiet --force --out $(1)/run
	$(1)/bin/unbraid encode $(1)/run --quiet
	$(1)/bin/unbraid score $(1)/run > /dev/null
	$(1)/bin/unbraid report $(1)/run
	$(1)/bin/unbraid compare $(1)/run --format csv > /dev/null
	$(1)/bin/unbraid export $(1)/run --onnx
	$(1)/bin/pytest -q -n $(WORKERS) -m "not slow" -W ignore::DeprecationWarning tests/laws
endef

test-lowest: $(LOWEST)/.ready ## train, score, report, export and run the laws with the lowest versions that pyproject.toml allows
	$(call try-versions,$(LOWEST))

test-newest: $(NEWEST)/.ready ## the same with the newest versions
	$(call try-versions,$(NEWEST))

fuzz: setup ## read 28,000 damaged files, recipes, arrays and downloads; the table is written to docs/reliability.md
	$(BIN)/python -m tests.fuzz --write

faults: $(VENV)/.all ## kill workers, drivers, shards, ranks, studios and Ray nodes, fill disks; the table is written to docs/reliability.md
	$(BIN)/python -m tests.faults --write

bench: $(VENV)/.all ## measure speed and memory, print ratios, write docs/benchmarks.md
	$(BIN)/python -m bench

.bench/peers: ; $(PYTHON) -m venv $@ && $@/bin/pip install --quiet $(TORCH) && $@/bin/pip install --quiet -e . 'pythae==0.1.2'

bench-peers: .bench/peers ## compare training speed with pythae, in a separate environment in .bench/
	.bench/peers/bin/python -m bench.peers

dist: setup ## build wheel and sdist of the committed files into dist/, and install both in an empty environment
	$(BIN)/python -m unbraid.catalogue.prepared
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	$(BIN)/pytest tests/end_to_end/test_release.py

docs: setup ## build the site into site/ without a network: open site/index.html
	$(BIN)/python docs/make.py

docs-version: setup ## build the site of this version into site/VERSION/, and list the versions in site/versions.html
	$(BIN)/python docs/make.py --version

clean: ## remove everything that the targets made
	rm -rf $(VENV) build dist site docs/reference docs/api *.egg-info demo .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

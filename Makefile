# `make help` lists the targets. Tools run as `python -m` from .venv; the code runs from the checkout.
.DEFAULT_GOAL := help
.PHONY: help run run-local test test-local test-agents fuzz lint fmt bench lock wheel screenshots clean
.PHONY: run-env dev-env local-env agents-env

PYTHON ?= $(shell for p in python3.11 python3; do $$p -c "" 2>/dev/null && echo $$p && break; done)
PY := .venv/bin/python
UV := uv==0.13.8
# For `make run`: arguments of `run`. For `make lock`: LOCK_ARGS=--upgrade renews every pin.
ARGS ?=
LOCK_ARGS ?=

find_python = \
	python="$(PYTHON)"; \
	if [ -z "$$python" ] || ! "$$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then \
		echo "error: '$${python:-python3}' is missing or older than Python 3.11: install it (apt-get install python3 python3-venv) or name another: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	if ! "$$python" -c "import ensurepip, venv" 2>/dev/null; then \
		echo "error: '$$python' cannot make virtual environments: install its venv module (apt-get install python3-venv) and try again" >&2; exit 1; \
	fi

# $(call install,NAME): bring .venv up to requirements/NAME.txt unless a stamp of the same content is there.
define install
	@stamp=".venv/.$(1)-$$(cksum < requirements/$(1).txt | tr ' ' '-')"; \
	if [ -f "$$stamp" ] && [ -x $(PY) ]; then exit 0; fi; \
	if ! $(PY) -c "import pip" 2>/dev/null; then \
		$(find_python); \
		echo "Making .venv with $$python"; \
		"$$python" -m venv --clear .venv || exit 1; \
	fi; \
	echo "Installing requirements/$(1).txt into .venv"; \
	rm -f .venv/.$(1)-*; \
	if ! $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$(1).txt; then \
		echo "error: requirements/$(1).txt could not be installed (see above): check the network and run make again" >&2; exit 1; \
	fi; \
	touch "$$stamp"
endef

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s%s\n", $$1, $$2}' Makefile

run-env:
	$(call install,run)

# The browser of the page's tests: Debian's, installed once if it is missing.
define chromium
	@if [ -x /usr/bin/chromium ]; then exit 0; fi; \
	echo "Installing chromium for the browser tests"; \
	if ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null; then \
		echo "error: the browser tests need /usr/bin/chromium: install it (apt-get install chromium, as root) and run make again" >&2; exit 1; \
	fi
endef

dev-env: run-env
	$(call install,dev)
	$(chromium)

local-env: run-env
	$(call install,local)
	@$(PY) -m gateway local fetch > /dev/null

# Agents of others, as requirements/agents/package-lock.json pins them with all that they bring; none of their scripts runs.
agents-env:
	@stamp="build/agents/.installed-$$(cksum < requirements/agents/package-lock.json | tr ' ' '-')"; \
	if [ -f "$$stamp" ]; then exit 0; fi; \
	if ! command -v npm > /dev/null; then \
		echo "error: the real agents need Node 20 or newer with npm: install them (apt-get install nodejs npm) and run make again" >&2; exit 1; \
	fi; \
	echo "Installing requirements/agents into build/agents"; \
	rm -rf build/agents && mkdir -p build/agents && cp requirements/agents/package*.json build/agents/ && \
	if ! npm install --prefix build/agents --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null; then \
		echo "error: requirements/agents could not be installed (see above): check the network and run make again" >&2; exit 1; \
	fi; \
	touch "$$stamp"

run: run-env ## start the gateway: make run ARGS="--config config.toml"
	@exec $(PY) -m gateway run $(ARGS)

# Data of its own, in build/local, so that no other daemon is in the way.
run-local: local-env ## chat with a small language model on this machine; after the first time without a network
	@mkdir -p build/local
	@printf '[gateway]\ndata_dir = "data"\n\n[agents.main]\nkind = "local"\n' > build/local/config.toml
	@exec $(PY) -m gateway run --config build/local/config.toml $(ARGS)

test: lint ## everything that CI runs: lint, then the tests with coverage
	$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder --cov --cov-report=term

test-local: dev-env local-env ## the whole path with the small language model; renews the table in docs/local-model.md
	TRUNKLINE_LOCAL_REPORT=docs/local-model.md $(PY) -m pytest tests/local_model

test-agents: dev-env agents-env ## the whole path with two agents from npm (450 MB); renews the table in docs/agents.md
	TRUNKLINE_AGENTS_REPORT=docs/agents.md $(PY) -m pytest tests/real_agents

fuzz: dev-env ## look for counterexamples that the tests do not have yet; ARGS="tests/store -k people"
	HYPOTHESIS_PROFILE=fuzz $(PY) -m pytest $(ARGS)

lint: dev-env ## style, types and the import rule
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -c "from importlinter.cli import lint_imports_command as run; run()" --no-logo

fmt: dev-env ## format the code and apply the safe fixes
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

bench: dev-env ## run the benchmarks
	$(PY) -m benchmarks

screenshots: dev-env ## take the pictures in docs/images/ again
	@mkdir -p docs/images
	TRUNKLINE_SCREENSHOTS=docs/images $(PY) -m pytest -q tests/browser/test_looks.py

wheel: dev-env ## build the wheel into dist/
	$(PY) -m build --no-isolation --wheel

lock: ## pin the dependencies of pyproject.toml again; LOCK_ARGS=--upgrade renews them all
	@$(find_python); \
	tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	"$$python" -m venv "$$tools" && "$$tools/bin/python" -m pip install --quiet --disable-pip-version-check $(UV) && \
	compile() { \
		"$$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $(LOCK_ARGS) \
			--output-file "$$1" pyproject.toml $$2 > /dev/null && \
		{ echo "# Made by 'make lock' from pyproject.toml."; cat "$$1"; } > "$$tools/out" && cp "$$tools/out" "$$1"; \
	} && \
	compile requirements/run.txt && compile requirements/dev.txt "--group dev --constraints requirements/run.txt" && \
	compile requirements/local.txt "--extra local --constraints requirements/run.txt"

clean: ## remove .venv, caches and build output
	rm -rf .venv dist build .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find gateway channels routing store tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

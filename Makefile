# Every target sets up what it needs: a machine with Python 3.11 (or newer), make and bash is enough.
# The environments follow pyproject.toml and constraints.txt and are made anew when one of them changes.

VENV := .venv
BIN := $(VENV)/bin
DEMO_LOG := pipelines/demo/demo_rollouts.jsonl.gz
DEMO_OUT := out/demo

# The first interpreter that answers: a name on the PATH may be a shim without a Python behind it.
PYTHON ?= $(shell for p in python3.11 python3; do \
  $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { command -v $$p; break; }; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: help demo test check oldest lint format types schemas schemas-check notebooks bench clean
.DELETE_ON_ERROR:

help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.core ## Builds preferences from the demo log and explains five of them
	$(BIN)/mcgpo build-prefs $(DEMO_LOG) -o $(DEMO_OUT) --overwrite
	$(BIN)/mcgpo show $(DEMO_OUT) --explain 5

test: lint types schemas-check notebooks check ## Everything that must pass: style, types, schemas, notebooks, tests

check: $(VENV)/.dev ## Tests alone; ARGS="-k name" picks some
	$(BIN)/python -m pytest $(ARGS)

# Lower bounds as exact pins; the other development tools stay as they are in constraints.txt.
oldest: ## Tests with the oldest versions of the core dependencies that pyproject.toml allows
	@$(PYTHON) -m venv --clear $(VENV)-oldest
	@$(PYTHON) -c "import re, tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*(re.sub(r'>=([^,]+).*', r'==\1', line) for line in project['dependencies']), sep='\n')" > $(VENV)-oldest/pins.txt
	@$(VENV)-oldest/bin/python -m pip install --quiet -r $(VENV)-oldest/pins.txt \
	  $(shell grep -E '^(hatchling|hypothesis|jinja2|jsonschema|pytest|pytest-randomly)==' constraints.txt)
	@$(VENV)-oldest/bin/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	$(VENV)-oldest/bin/python -m pytest $(ARGS)

lint: $(VENV)/.dev ## ruff: rules and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## ruff: repairs what it can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

schemas: $(VENV)/.core ## Writes schemas/*.schema.json from mcgpo_data/schema.py
	$(BIN)/python -m mcgpo_data.jsonschema schemas

schemas-check: $(VENV)/.core
	$(BIN)/python -m mcgpo_data.jsonschema --check schemas

# Executed copies go to out/notebooks: the files in notebooks/ carry no outputs.
notebooks: $(VENV)/.dev ## Executes every notebook
	@mkdir -p out/notebooks
	@for notebook in $(wildcard notebooks/*.ipynb); do \
	  echo "executing $$notebook"; \
	  $(BIN)/jupyter-execute --timeout=600 --output "$(CURDIR)/out/notebooks/$$(basename $$notebook)" $$notebook || exit 1; \
	done

bench: $(VENV)/.dev ## Runs every benchmark; prints ratios, asserts nothing
	@for bench in core_pairs end_to_end credit; do $(BIN)/python benchmarks/$$bench.py || exit 1; done

clean: ## Removes environments, caches and outputs
	rm -rf $(VENV) $(VENV)-oldest out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.core: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Needs Python 3.11 or newer with venv and ensurepip; found none as python3.11 or python3." \
	  "Install it, or name one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) hatchling
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(INSTALL) --no-build-isolation --editable '.[dev,notebook]'
	@touch $@

# `make lab` explores a real model in JupyterLab, `make test` runs every check, `make check` those of what changed,
# `make docs` builds the site, with every notebook run, `make dist` the wheel and the source distribution.
# Each makes .venv and install what they need; nothing but Python ≥ 3.11 with venv is expected on the machine.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Compiled files are kept: dozens of processes of the tests import the same packages.
export PYTHONDONTWRITEBYTECODE =
FRONT  := $(shell find widgets -path widgets/node_modules -prune -o -type f -print 2>/dev/null)

.PHONY: lab test check lint types layers unit docs dist clean

lab: $(VENV)/lab.stamp
	$(BIN)/irscope lab

test: $(VENV)/dev.stamp
	$(MAKE) -j 2 $(VENV)/compiled.stamp types layers $(VENV)/node.stamp lint
	$(MAKE) unit

check: $(VENV)/compiled.stamp lint types layers
	@tests=$$($(BIN)/python tests/changed.py); [ -z "$$tests" ] || $(BIN)/python -m pytest -q $$tests

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

layers: $(VENV)/dev.stamp
	$(BIN)/lint-imports

# Three for two processors: the one that has the browser waits half its time. Files in their order, as the many small ones come last.
# A process that crashes ends the run, with its stack: started again, xdist waits for ever for tests that it has lost.
unit: $(VENV)/compiled.stamp $(VENV)/node.stamp
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 --durations=50

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -f docs/site/mkdocs.yml
	@echo "open build/site/index.html"

dist: $(VENV)/bin/python
	rm -rf dist
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	$(PIP) install --quiet --constraint constraints.txt hatchling
	$(BIN)/python -m hatchling build -t sdist -d dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "irscope needs Python 3.11 or newer; try make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/lab.stamp: $(VENV)/bin/python pyproject.toml constraints.txt $(FRONT)
	@echo "installing irscope, JupyterLab and PyTorch into $(VENV): some minutes, the first time"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[tour]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml constraints.txt $(FRONT)
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/lab.stamp

# What the tests import is compiled here, while the linters need one processor, and not by each process that runs tests.
$(VENV)/compiled.stamp: $(VENV)/dev.stamp
	$(BIN)/python -m pytest --collect-only -q >$(VENV)/compiled.log 2>&1 || { tail -n 60 $(VENV)/compiled.log; exit 1; }
	touch $@

# TypeScript, vitest, axe-core and speedscope, for tests/widgets and tests/browser.
$(VENV)/node.stamp: widgets/package-lock.json | $(VENV)/dev.stamp
	$(BIN)/python widgets/hatch_build.py --tools
	touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist widgets/node_modules irscope/widgets/static/*.js irscope/widgets/static/*.css

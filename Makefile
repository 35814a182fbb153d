# `make lab` explores a real model in JupyterLab, `make test` runs every check, `make check` those of what changed,
# `make docs` builds the site, with every notebook run, `make dist` the wheel and the source distribution.
# Each makes .venv and install what they need; nothing but Python ≥ 3.11 with venv is expected on the machine.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
FRONT  := $(shell find widgets -path widgets/node_modules -prune -o -type f -print 2>/dev/null)

.PHONY: lab test check lint types layers unit docs dist clean

lab: $(VENV)/lab.stamp
	$(BIN)/irscope lab

test: $(VENV)/dev.stamp
	$(MAKE) -j 2 $(VENV)/compiled.stamp lint types layers
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

# A process that crashes ends the run, with its stack: started again, xdist waits for ever for tests that it has lost.
unit: $(VENV)/compiled.stamp
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart=0 --durations=50

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

# The files of all packages take half a minute, while the linters need one processor. Some are for other Pythons and do not compile.
$(VENV)/compiled.stamp: $(VENV)/dev.stamp
	-$(BIN)/python -W ignore -m compileall -q $(VENV)/lib >$(VENV)/compiled.log 2>&1
	touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist widgets/node_modules irscope/widgets/static/*.js irscope/widgets/static/*.css

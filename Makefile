# make demo | test | lint: each builds .venv when it is missing and reuses it when nothing changed.
# Another interpreter: make test PYTHON=python3.13. Options for pytest: make test ARGS="-k tell -x".

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEPS := pyproject.toml constraints.txt $(BIN)/python

.PHONY: help demo test lint clean
.NOTPARALLEL:

help:
	@sed -n '1,2s/^# //p' Makefile

demo: $(VENV)/.base
	$(BIN)/python -m pellucid.demo $(ARGS)

# One thread each for as many workers as there are cores, four at most: tests are many small fits.
# Those of the report want a Chromium: they are skipped, or fail where CI is set, without one.
test: $(VENV)/.test
	@sh tests/browser.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is \
	needed and $(PYTHON) is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

# A stamp is written last, so an interrupted install is done again.
$(VENV)/.base: $(DEPS)
	$(PIP) -e .
	@touch $@

$(VENV)/.test: $(DEPS)
	$(PIP) -e '.[test]'
	@touch $(VENV)/.base $@

$(VENV)/.lint: $(DEPS)
	$(PIP) -e '.[lint]'
	@touch $(VENV)/.base $@

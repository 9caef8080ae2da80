# Every target sets up what it needs in .venv; only Python >= 3.11, pip and make are asked for.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: train test check fix bench soak clean

train: .venv/installed  ## run the large-batch example: 1000 CartPoles on 8 workers
	$(BIN)/python examples/large_batch.py

test: check  ## lint, types and tests
	$(BIN)/python -m pytest

check: .venv/installed  ## lint and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

fix: .venv/installed  ## format, and mend what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/installed  ## measure the figures of the README (minutes)
	$(BIN)/superdex bench --plot docs/throughput.png --json docs/throughput.json

soak: .venv/installed  ## ten minutes of faults, recovery, checkpoints and fuzzing, and 200 create/close cycles
	$(BIN)/python -m tests.soak.soak --minutes 10
	SUPERDEX_CYCLES=200 $(BIN)/python -m pytest tests/lab/gym/vector/test_lifecycle.py -k many_cycles

clean:  ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

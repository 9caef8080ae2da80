# Every target sets up what it needs in .venv; only Python >= 3.11, pip and make are asked for.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt --editable

.PHONY: train test test-guests check fix bench soak clean

train: .venv/train  ## train CartPole with PPO: a policy, its curve and its video, under runs/
	$(BIN)/superdex train CartPole

test: check  ## lint, types and tests
	$(BIN)/python -m pytest

test-guests: .venv/dev .venv/guests .venv-rllib/installed  ## other people's trainers (minutes)
	$(BIN)/python -m pytest tests/guests --ignore tests/guests/test_rllib.py
	.venv-rllib/bin/python -m pytest tests/guests/test_rllib.py

check: .venv/dev  ## lint and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

fix: .venv/dev  ## format, and mend what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/dev  ## measure the figures of the README (minutes)
	$(BIN)/superdex bench --plot docs/throughput.png --json docs/throughput.json

soak: .venv/dev  ## ten minutes of faults, recovery, checkpoints and fuzzing, and 200 create/close cycles
	$(BIN)/python -m tests.soak.soak --minutes 10
	SUPERDEX_CYCLES=200 $(BIN)/python -m pytest tests/lab/gym/vector/test_lifecycle.py -k many_cycles

clean:  ## remove .venv and caches
	rm -rf .venv .venv-rllib .pytest_cache .ruff_cache .hypothesis

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv

.venv/%: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(INSTALL) ".[$*]"
	touch $@

.venv-rllib/installed: pyproject.toml constraints.txt  # apart: RLlib pins an older Gymnasium
	$(PYTHON) -m venv .venv-rllib
	.venv-rllib/bin/pip install --quiet --constraint constraints.txt --editable . "ray[rllib]" torch pytest hypothesis
	touch $@

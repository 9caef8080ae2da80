"""The examples, and the one in the documentation, run as a user runs them: as scripts."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# As it stands in the documentation, "Training with Large Batches".
DOCUMENTED = """
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv

num_training_steps = 1000


def main():
    # Environment factory functions, one per environment.
    env_creators = [lambda: CartPoleEnv({"render_mode": None}) for _ in range(1000)]

    # 8 async workers, each stepping 125 environments sequentially.
    with HybridVectorEnv(env_creators, num_envs_per_worker=125) as env:
        print(f"Created {env.num_envs} environments")
        print(f"Using {env.num_workers} async workers")
        print(f"Each worker manages {env.num_envs_per_worker} environments")

        observations, _ = env.reset(seed=list(range(env.num_envs)))
        for step in range(num_training_steps):
            actions = ...  # your policy
            observations, rewards, terminated, truncated, info = env.step(actions)


# Required: the wrapper spawns its workers, so each child re-imports this module.
if __name__ == "__main__":
    main()
"""

CREATED = "Created 1000 environments\nUsing 8 async workers\nEach worker manages 125 environments\n"


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def run(script: Path, *args: str) -> str:
    done = subprocess.run([sys.executable, script, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_documented_example_runs_verbatim(tmp_path):
    script = tmp_path / "documented.py"
    short = replaced(DOCUMENTED, "num_training_steps = 1000", "num_training_steps = 5")
    script.write_text(replaced(short, "= ...  #", "= env.action_space.sample()  #"))

    assert run(script) == CREATED


def test_large_batch_is_the_documented_example_with_a_policy():
    lines = (EXAMPLES / "large_batch.py").read_text().splitlines()
    kept = [line for line in DOCUMENTED.splitlines() if "actions = ..." not in line and "for step in" not in line]

    position = 0
    for line in kept:
        position = lines.index(line, position) + 1 if line else position


def test_large_batch_balances_all_poles(tmp_path):
    script = tmp_path / "large_batch.py"
    text = (EXAMPLES / "large_batch.py").read_text()
    text = replaced(text, "num_training_steps = 1000", "num_training_steps = 62")
    script.write_text(replaced(text, '{"render_mode": None}', '{"render_mode": None, "steps_per_episode": 30}'))

    printed = run(script)

    assert printed.startswith(CREATED)
    assert re.search(r"^[\d,]+ control steps per second$", printed, re.MULTILINE)
    # steps 1 to 30, a reset, 32 to 61, a reset: each pole stands to the end of two episodes
    assert printed.endswith("Mean length of 2000 finished episodes: 30.0 steps\n")


def test_run_with_gymnasium_vectorization_tells_why_episodes_end():
    sizes = ("--num-workers", "2", "--num-envs-per-worker", "4", "--num-steps", "35")

    printed = run(EXAMPLES / "run_with_gymnasium_vectorization.py", *sizes).splitlines()

    assert printed[0] == "Observations (8, 4), actions (8, 1)"
    ends = [re.fullmatch(r"Step \d+, environment (\d): (.+)", line) for line in printed[1:]]
    assert all(ends)
    assert {end[1] for end in ends if end} == set("01234567"), "every episode has ended, after 30 steps at the latest"
    reasons = {end[2] for end in ends if end}
    assert reasons <= {"Pole angle exceeded threshold", "Steps per episode reached"}
    assert "Pole angle exceeded threshold" in reasons


@pytest.mark.parametrize("script", sorted((EXAMPLES / "guests").glob("*.py")), ids=lambda script: script.stem)
def test_examples_for_other_libraries_are_short(script: Path) -> None:
    text = script.read_text().replace(ast.get_docstring(ast.parse(script.read_text()), clean=False) or "", "")
    code = [line for line in text.splitlines() if line.strip(' "') and not line.lstrip().startswith("#")]
    assert len(code) < 60

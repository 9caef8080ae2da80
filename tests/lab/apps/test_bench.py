"""`superdex bench`, run quickly from end to end; no assertion here depends on a clock."""

import contextlib
import io
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from superdex.lab.apps.bench.laps import Lap
from superdex.lab.apps.bench.measuring import Plan
from superdex.lab.apps.bench.memory import Memory
from superdex.lab.apps.bench.plot import draw_figure
from superdex.lab.apps.bench.settings import Settings
from superdex.lab.apps.bench.startup import Split, Startup, bytes_per_env
from superdex.lab.apps.bench.sweep import SplitResult, measure_split, splits_of
from superdex.lab.apps.main import main
from superdex.lab.apps.tasks import find_task

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A quick run of all sections."""
    directory = tmp_path_factory.mktemp("bench")
    files = {"--json": directory / "bench.json", "--plot": directory / "bench.png"}
    args = [str(part) for pair in files.items() for part in pair]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(["bench", "--quick", "--env", "CartPole", "--num_threads", "2", *args])
    document = json.loads(files["--json"].read_text())
    return SimpleNamespace(code=code, out=out.getvalue(), document=document, plot=files["--plot"].read_bytes())


def test_quick_run_prints_a_table_per_section(quick):
    assert quick.code == 0
    for title in ("Sweep: ", "Against Gymnasium's vectorizers", "Scene sharing", "Large numbers of CartPole"):
        assert title in quick.out
    for column in ("start [s]", "memory [MB]", "B/env", "control FPS", "simulation FPS", "of raw MuJoCo"):
        assert column in quick.out
    assert quick.plot.startswith(PNG)


def test_sweep_measures_every_split_and_the_same_in_process(quick):
    rows = quick.document["sections"]["sweep"]

    splits = [(row["num_workers"], row["num_envs_per_process"], row["num_envs"], row["num_threads"]) for row in rows]
    assert splits == [(2, 1, 2, 2), (2, 4, 8, 2), (0, 2, 2, 2), (0, 8, 8, 2)]


def test_figures_of_the_sweep_follow_from_its_laps(quick):
    for row in quick.document["sections"]["sweep"]:
        laps = row["laps"]
        assert set(laps) == {"environments", "raw mujoco.batch"}
        assert all(len(each) == 2 for each in laps.values())
        assert all(env_steps == 3 * row["num_envs"] for each in laps.values() for env_steps, _ in each)
        speeds = [env_steps / seconds for env_steps, seconds in laps["environments"]]
        assert row["control_fps"] == pytest.approx(sum(speeds) / 2)
        assert row["simulation_fps"] == pytest.approx(2 * row["control_fps"])
        pairs = zip(laps["environments"], laps["raw mujoco.batch"], strict=True)
        assert row["ratio_to_raw"] == pytest.approx(sum(raw / env for (_, env), (_, raw) in pairs) / 2)
        assert row["init_seconds"] > 0
        assert row["memory_bytes"] > 1e6


def test_other_sections_hold_what_they_say(quick):
    sections = quick.document["sections"]

    pairs = [(row["ours"], row["theirs"]) for row in sections["gymnasium"]]
    assert pairs == [
        ("HybridVectorEnv 2 x 4", "SyncVectorEnv 8"),
        ("HybridVectorEnv 2 x 4", "AsyncVectorEnv 2"),
        ("SceneVectorEnv 4, 1 thread", "SyncVectorEnv 4"),
    ]
    assert [(row["use_shared_scenes"], row["num_envs"]) for row in sections["sharing"]] == [(True, 20), (False, 20)]
    assert sections["scaling"]["task"] == "CartPole"
    assert sections["scaling"]["growth"]["num_envs"] == [20, 200]
    assert sections["scaling"]["many"]["num_envs"] == 100


def test_json_describes_the_machine_without_naming_it(quick):
    document = quick.document

    assert set(document) == {"schema", "machine", "options", "seconds", "summary", "sections"}
    assert document["schema"] == 1
    assert document["machine"]["usable_logical_cpus"] >= 1
    assert set(document["machine"]["libraries"]) == {"superdex-gym", "mujoco", "gymnasium", "numpy"}
    assert document["options"]["tasks"] == ["superdex_gym/CartPole-v0"]
    assert set(document["summary"]["ratio_to_raw"]["CartPole"]) == {
        "2 x 1",
        "2 x 4",
        "in process, 2 on 2 threads",
        "in process, 8 on 2 threads",
    }
    text = json.dumps(document)
    assert socket.gethostname() not in re.split(r"[^\w.-]+", text)
    assert str(Path.home()) not in text
    assert "bench.json" not in text


def test_sections_can_be_chosen_and_a_failed_measurement_is_exit_code_1(monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr("sys.executable", "/bin/false")

    assert main(["bench", "--sections", "sharing", "--env", "CartPole", "--quick"]) == 1

    assert "failed with exit code 1" in capfd.readouterr().err


def test_splits_are_the_product_and_as_many_in_process():
    task = find_task("Ant")
    settings = Settings(tasks=(task,), num_workers=(1, 4), num_envs_per_worker=(2, 3), num_threads=(1, 2), plan=Plan())

    hybrid, in_process = [], []
    for split in splits_of(settings):
        (hybrid if split.num_workers else in_process).append(split)

    assert [(split.num_workers, split.num_envs_per_process) for split in hybrid] == [(1, 2), (1, 3), (4, 2), (4, 3)]
    assert [(split.num_threads, split.num_envs) for split in in_process] == [(1, 8), (1, 12), (2, 8), (2, 12)]
    assert {split.total_threads for split in hybrid if split.num_workers == 4} == {4}


def test_wrong_results_stop_the_measurement(monkeypatch):
    class Drifting:
        """Seeds of its own: other results than its twin's."""

        def reset(self, seed):
            return self.env.reset(seed=seed + 1)

        def __getattr__(self, name):
            return getattr(self.env, name)

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            self.env.close()

    split = Split(find_task("CartPole"), 0, 2)
    drifting = Drifting()
    drifting.env = split.make()  # type: ignore[attr-defined]
    monkeypatch.setattr(Split, "make", lambda self: drifting)

    with pytest.raises(RuntimeError, match=r"CartPole, in process, 2: results differ from a SceneVectorEnv's"):
        measure_split(split, Plan(rounds=1, num_steps=1, warmup_steps=1))


def test_bytes_per_env_is_the_difference_to_one_environment_per_thread():
    split = Split(find_task("CartPole"), 2, 500, num_threads=2)
    assert split.baseline == Split(find_task("CartPole"), 2, 2, num_threads=2)

    startup, baseline = (Startup(1.0, Memory(total=10**9, data=data)) for data in (50_000_000, 48_008_000))
    assert bytes_per_env(split, startup, baseline) == 2000
    assert bytes_per_env(split.baseline, baseline, baseline) is None
    assert bytes_per_env(split, Startup(1.0, None), baseline) is None


def split_result(task: str, num_workers: int, num_envs: int, ratio: float) -> SplitResult:
    return SplitResult(
        task=task,
        num_workers=num_workers,
        num_envs_per_process=num_envs // max(num_workers, 1),
        num_envs=num_envs,
        num_threads=max(num_workers, 1),
        num_substeps=2,
        init_seconds=1.0,
        memory_bytes=None,
        bytes_per_env=None,
        control_fps=1e5 * ratio,
        simulation_fps=2e5 * ratio,
        ratio_to_raw=ratio,
        laps={"environments": [Lap(1, 1.0)]},
    )


@pytest.mark.parametrize(("num_tasks", "suffix"), [(1, "svg"), (4, "png")])
def test_figure_is_drawn_for_any_number_of_tasks(num_tasks, suffix, tmp_path):
    results = [
        split_result(f"Task{task}", num_workers, 10 * max(num_workers, 1), 0.9)
        for task in range(num_tasks)
        for num_workers in (0, 1, 2, 4, 8, 16, 32)
    ]
    path = tmp_path / f"figure.{suffix}"

    draw_figure(results, path)

    assert path.stat().st_size > 1000

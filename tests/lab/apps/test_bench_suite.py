"""`superdex bench --suite gymnasium-v5`, run quickly from end to end; no assertion here depends on a clock."""

import contextlib
import io
import json
import sys
import weakref
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from superdex.lab.apps.bench import suite
from superdex.lab.apps.bench.contestants import ASYNC, ENVPOOL, HYBRID, OURS, RAW, SYNC, Match, enter
from superdex.lab.apps.bench.laps import Lap
from superdex.lab.apps.bench.measuring import Plan
from superdex.lab.apps.bench.suite import SuiteReport, SuiteResult, find_suite_tasks
from superdex.lab.apps.bench.suite_plot import charted, draw_suite
from superdex.lab.apps.bench.suite_report import suite_table
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.main import main
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.tasks import find_task

(HOPPER,) = find_suite_tasks(("Hopper",))
EVERYBODY = [OURS, HYBRID, RAW, ENVPOOL, ASYNC, SYNC]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A quick run of one task."""
    directory = tmp_path_factory.mktemp("suite")
    files = {"--json": directory / "suite.json", "--plot": directory / "suite.png"}
    args = ["--suite", "gymnasium-v5", "--env", "Hopper", "--num_envs", "2", "--num_threads", "2", "--quick"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(["bench", *args, *(str(part) for pair in files.items() for part in pair)])
    document = json.loads(files["--json"].read_text())
    return SimpleNamespace(code=code, out=out.getvalue(), document=document, plot=files["--plot"].read_bytes())


def test_quick_run_prints_a_table_and_draws_a_figure(quick):
    assert quick.code == 0
    for column in ("our FPS", "of raw MuJoCo", "x HybridVectorEnv", "x EnvPool", "x AsyncVectorEnv", "x SyncVectorEnv"):
        assert column in quick.out
    assert "Left out" not in quick.out
    assert quick.plot.startswith(b"\x89PNG")


def test_everybody_takes_part_and_figures_follow_from_the_laps(quick):
    section = quick.document["sections"]["suite"]
    (row,) = section["results"]

    assert (row["task"], row["num_envs"], row["num_threads"]) == ("Hopper-v5", 2, 2)
    assert list(row["laps"]) == EVERYBODY
    assert section["left_out"] == []
    version, mujoco = section["envpool"].split(", with MuJoCo ")
    assert version.count(".") == mujoco.count(".") == 2
    speeds = {name: [env_steps / seconds for env_steps, seconds in laps] for name, laps in row["laps"].items()}
    for name in EVERYBODY:
        assert [env_steps for env_steps, _ in row["laps"][name]] == [6, 6]
        assert row["control_fps"][name] == pytest.approx(sum(speeds[name]) / 2)
    for name in EVERYBODY[1:]:
        ratios = [ours / theirs for ours, theirs in zip(speeds[OURS], speeds[name], strict=True)]
        assert row["times_as_fast"][name] == pytest.approx(sum(ratios) / 2)
        low, high = sorted(ratios)
        assert row["quartiles"][name] == pytest.approx([low + (high - low) / 4, high - (high - low) / 4])
    assert quick.document["summary"]["times_as_fast"]["Hopper-v5"]["2 on 2 threads"] == row["times_as_fast"]
    assert quick.document["options"]["suite"] == "gymnasium-v5"


def test_contestants_of_missing_libraries_are_left_out_with_a_line_that_names_the_extra(monkeypatch, capsys):
    for module in ("envpool", "imageio"):
        monkeypatch.setitem(sys.modules, module, None)
    took_part = []

    def in_fresh_process(function, match, names, plan):
        took_part.extend(names)
        return {name: [Lap(1, 1.0)] for name in names}

    monkeypatch.setattr(suite, "in_fresh_process", in_fresh_process)

    assert main(["bench", "--suite", "gymnasium-v5", "--env", "Ant", "--num_envs", "2", "--num_threads", "2"]) == 0

    assert took_part == [OURS, HYBRID, RAW]
    out = capsys.readouterr().out
    line = "Left out: EnvPool, AsyncVectorEnv, SyncVectorEnv. To have all: pip install 'superdex-gym[bench]'."
    assert line in " ".join(out.split())
    assert "x EnvPool" not in out


def test_who_takes_part_and_with_how_many():
    assert Match(HOPPER, 1000, 2).contestants == (OURS, HYBRID, RAW, ENVPOOL, ASYNC, SYNC)
    assert Match(HOPPER, 1000, 1).contestants == (OURS, RAW, ENVPOOL, SYNC)
    assert HYBRID not in Match(HOPPER, 1000, 3).contestants, "its workers get as many environments each"
    sizes = {name: Match(HOPPER, 1000, 2).size(name) for name in EVERYBODY}
    assert sizes == {OURS: 1000, HYBRID: 1000, RAW: 1000, ENVPOOL: 1000, ASYNC: 8, SYNC: 100}


@pytest.mark.parametrize("names", [(OURS, RAW), (SYNC,)])
def test_episodes_end_at_different_times(names):
    (task,) = find_suite_tasks(("Reacher",))  # every episode has 50 steps
    with ExitStack() as stack:
        runner = enter(Match(task, 30, 1), names, Plan(warmup_steps=3), stack)[names[0]]
        truncated = [runner.env.step(np.zeros((30, 2), np.float32))[3] for _ in range(50)]

    assert np.count_nonzero(np.any(truncated, axis=1)) > 15, "steps in which some of 30 episodes ended"


def test_envpool_is_reset_at_different_times():
    with ExitStack() as stack:
        runner = enter(Match(HOPPER, 8, 1), (ENVPOOL,), Plan(warmup_steps=4), stack)[ENVPOOL]
        infos = runner.env.step(np.zeros((8, 3)))[4]

    assert sorted(infos["elapsed_step"]) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_raw_loop_knows_of_episodes_that_ended_in_the_warm_up():
    (task,) = find_suite_tasks(("Reacher",))  # with 200 episodes of 50 steps, some end in every step
    with ExitStack() as stack:
        sides = enter(Match(task, 200, 1), (OURS, RAW), Plan(warmup_steps=3), stack)
        sides[OURS].run(1)
        assert sides[RAW].run(1).env_steps == 200


def test_raw_loop_that_differs_stops_the_measurement(monkeypatch):
    with ExitStack() as stack:
        sides = enter(Match(HOPPER, 2, 1), (OURS, RAW), Plan(warmup_steps=1), stack)
        sides[OURS].run(2)
        assert sides[RAW].run(99).env_steps == 4, "the block that ours did"
        sides[OURS].run(2)
        sides[OURS].raw.num_substeps -= 1
        with pytest.raises(RuntimeError, match="Nothing measured here counts"):
            sides[RAW].run(2)


def test_raw_loop_repeats_in_every_turn_the_block_that_ours_has_done_in_it():
    with ExitStack() as stack:
        sides = enter(Match(HOPPER, 2, 1), (OURS, RAW, SYNC), Plan(warmup_steps=1), stack)
        sides[OURS].run(2)
        sides[RAW].run(2)
        with pytest.raises(RuntimeError, match="has repeated this block already: ours goes first"):
            sides[RAW].run(2)

    laps = suite.race(Match(HOPPER, 2, 1), (OURS, RAW, SYNC), Plan(rounds=4, num_steps=2, warmup_steps=1))  # rotated
    assert {name: len(each) for name, each in laps.items()} == {OURS: 4, RAW: 4, SYNC: 4}


def test_our_results_are_dropped_as_those_of_the_others():
    alive = []
    with ExitStack() as stack:
        ours = enter(Match(HOPPER, 2, 1), (OURS,), Plan(warmup_steps=1), stack)[OURS]
        step, results = ours.env.step, []

        def watched(actions):
            alive.append(sum(result() is not None for result in results))
            result = step(actions)
            results.append(weakref.ref(result.reward))
            return result

        ours.env.step = watched
        ours.run(4)

    assert alive == [0, 0, 0, 0]


def test_tasks_are_found_by_each_of_their_names():
    assert find_task("GymnasiumHopper") == HOPPER
    assert find_suite_tasks(("Hopper-v5", "superdex_gym/GymnasiumHopper-v5", "GymnasiumHopper")) == (HOPPER,)
    assert len(find_suite_tasks(None)) == 11
    with pytest.raises(UserError, match=r"--env CartPole: there is no such task in the suite\. It has: Ant, HalfChee"):
        find_suite_tasks(("CartPole",))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--num_envs", "4"], "--num_envs is for --suite; sections take --num_envs_per_worker, got (4,)."),
        (
            ["--suite", "gymnasium-v5", "--num_workers", "2"],
            "--num_workers does not go with --suite, which takes --num_envs and --num_threads, got (2,).",
        ),
        (["--suite", "gymnasium-v5", "--num_envs", "0"], "--num_envs must be at least 1, got 0."),
        (["--suite", "gymnasium-v5", "--env"], "--env must be at least one task, got none."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(args, message, capsys):
    assert main(["bench", *args]) == 2
    assert capsys.readouterr().err == f"superdex: error: {message}\n"


def result(task: str, num_envs: int, num_threads: int) -> SuiteResult:
    laps = {name: [Lap(100, 1.0 + index)] for index, name in enumerate(EVERYBODY)}
    return SuiteResult(
        task=task,
        num_envs=num_envs,
        num_threads=num_threads,
        sizes=dict.fromkeys(laps, num_envs),
        control_fps={name: each[0].speed for name, each in laps.items()},
        times_as_fast={name: laps[OURS][0].speed / each[0].speed for name, each in laps.items() if name != OURS},
        quartiles={name: (0.5, 1.5) for name in laps if name != OURS},
        laps=laps,
    )


def test_figure_shows_a_thousand_environments_on_all_threads(tmp_path):
    results = [
        result(f"Task{task}-v5", count, threads)
        for task in range(5)
        for count in (16, 1000, 4000)
        for threads in (1, 2)
    ]

    assert {(each.num_envs, each.num_threads) for each in charted(results)} == {(1000, 2)}
    assert [each.task for each in charted(results)] == [f"Task{task}-v5" for task in range(5)]
    assert charted([result("Task-v5", 16, 1), result("Task-v5", 100, 1)])[0].num_envs == 100

    draw_suite(results, tmp_path / "suite.svg")
    assert (tmp_path / "suite.svg").stat().st_size > 1000


def test_table_has_empty_cells_for_those_who_did_not_take_part(capsys):
    alone = result("Ant-v5", 16, 1)
    del alone.times_as_fast[HYBRID]
    make_console().print(suite_table(SuiteReport(envpool=None, left_out=(), results=[alone, result("Ant-v5", 16, 2)])))

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "Ant-v5" in line]
    assert [len(row) for row in rows] == [8, 9]
    assert rows[1][4:] == ["3.00±0.50", "2.00", "4.00±0.50", "5.00", "6.00"]

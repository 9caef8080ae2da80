"""`superdex play` and `superdex history` on a small run."""

import errno
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import imageio_ffmpeg
import numpy as np
import pytest

from superdex.lab.apps.evaluation import evaluate
from superdex.lab.apps.history import spread
from superdex.lab.apps.main import main
from superdex.lab.apps.train.checkpoints import CheckpointStore, load_policy
from superdex.lab.apps.train.policy_file import read_policy, save_policy
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.physics.rendering import Renderer, RenderingError


def frames_of(path):
    """Number and size (width, height) of a video's frames."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    width, height = map(int, re.search(rb"Video:.* (\d+)x(\d+)", result.stderr).groups())
    return len(result.stdout) / (width * height * 3), (width, height)


def figures(printed, name):
    return [float(text) for text in re.search(rf"^ {name} +(.*)$", printed, re.MULTILINE)[1].split()]


def test_table_has_the_figures_of_the_evaluation(finished, capsys):
    assert main(["play", str(finished), "--num-episodes", "10", "--seed", "3"]) == 0

    printed = capsys.readouterr().out
    loaded = load_policy(finished)
    episodes = evaluate(loaded.task, loaded.policy, 10, seed=3)
    for name, values in (("return", episodes.returns), ("length", episodes.lengths)):
        expected = [values.mean(), values.std(), values.min(), values.max()]
        np.testing.assert_allclose(figures(printed, name), expected, atol=0.051)
    assert re.search(r"ended by Pole angle exceeded\s+threshold: 10", printed)


def test_checkpoint_can_be_played_and_noise_makes_a_difference(finished, capsys):
    checkpoint = str(CheckpointStore(RunDirectory(finished).checkpoints).all()[0].path)

    printed = []
    for extra in ([], ["--stochastic"], ["--stochastic"]):
        assert main(["play", checkpoint, "--num-episodes", "10", *extra]) == 0
        printed.append(capsys.readouterr().out)

    assert "iteration 0, 0 steps, return none yet in training" in printed[0]
    assert figures(printed[0], "return") != figures(printed[1], "return")
    assert printed[1] == printed[2]


def policy_of(run_dir, path, **cfg):
    """The run's policy at `path`, as if it had been trained with these fields of the configuration."""
    policy, info = read_policy(RunDirectory(run_dir).best_policy)
    save_policy(path, policy, replace(info, cfg=cfg))
    return str(path)


def test_changed_task_is_not_blamed_on_an_option(finished, tmp_path, capsys):
    path = policy_of(finished, tmp_path / "actor.npz", gone=1)

    assert main(["play", path]) == 2

    error = capsys.readouterr().err
    assert error.startswith(
        f"superdex: error: The task of the policy in {path} cannot be made: CartPoleCfg has no field 'g"
    )
    assert "--cfg" not in error


def test_camera_that_is_not_there_is_said(finished, tmp_path, capsys):
    path = policy_of(finished, tmp_path / "actor.npz", render_camera="nope")

    assert main(["play", path, "--video", str(tmp_path / "v.mp4")]) == 2

    message = "superdex: error: render_camera: The model has no camera 'nope'; it has track.\n"
    told = capsys.readouterr()
    assert told.err == message
    assert "mean" not in told.out  # the time to play was not spent
    assert not (tmp_path / "v.mp4").exists()


def test_camera_of_the_last_film_is_checked_before_training(tmp_path, capsys):
    args = ["train", "CartPole", "--cfg", "render_camera=nope", "--run-dir", str(tmp_path / "run")]
    assert main(args) == 2
    assert "superdex: error: render_camera: The model has no camera 'nope'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*args, "--no-video", "--total-steps", "1", "--num-envs", "2", "--n-steps", "2"]) == 0


def test_video_of_one_environment_and_of_a_grid(finished, tmp_path, capsys):
    for count, size in ((1, (640, 526)), (3, (964, 792))):  # of 640 x 480 and 480 x 360, each below its caption
        path = tmp_path / f"{count}.mp4"
        flags = ["--video", str(path), "--num-video-envs", str(count), "--video-seconds", "0.2", "--num-episodes", "0"]
        assert main(["play", str(finished), *flags]) == 0
        assert frames_of(path) == (5, size)
        assert f"video: {path}" in capsys.readouterr().out


def test_onnx_export_says_the_largest_difference(finished, tmp_path, capsys):
    path = tmp_path / "policy.onnx"

    assert main(["play", str(finished), "--num-episodes", "0", "--onnx", str(path)]) == 0

    difference = re.search(r"its actions differ from the policy's by at most (\S+)", capsys.readouterr().out)[1]
    assert float(difference) < 1e-5
    assert path.exists()


def test_full_disk_is_said(finished, tmp_path, monkeypatch, capsys):
    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("superdex.lab.apps.play.export_onnx", fail)
    assert main(["play", str(finished), "--num-episodes", "0", "--onnx", str(tmp_path / "x.onnx")]) == 2
    assert "x.onnx cannot be written: No space left on device.\n" in capsys.readouterr().err


def test_history_shows_the_checkpoints(finished, tmp_path, capsys):
    path = tmp_path / "history.mp4"

    flags = ["--video", str(path), "--num-checkpoints", "2", "--video-seconds", "0.2"]
    assert main(["history", str(finished), *flags]) == 0

    assert frames_of(path) == (5, (964, 418))
    assert capsys.readouterr().out == f"video: {path}\n"


def test_history_chooses_evenly_with_first_and_last():
    assert spread([*range(21)], 5) == [0, 5, 10, 15, 20]
    assert spread([*range(3)], 9) == [0, 1, 2]
    assert spread([*range(3)], 1) == [2]


def test_train_makes_a_video_at_the_end_or_says_why_not(finished, tmp_path, monkeypatch, capsys):
    path = shutil.copytree(finished, tmp_path / "run")
    monkeypatch.setattr("superdex.lab.apps.train.session._VIDEO_SECONDS", 0.2)
    total = json.loads((path / "summary.json").read_text())["steps"]
    assert main(["train", "--resume", str(path), "--total-steps", str(total + 1)]) == 0
    assert frames_of(path / "video.mp4") == (5, (640, 526))

    def refuse(*args, **kwargs):
        raise RenderingError("No OpenGL here:\ninstall libosmesa6")

    monkeypatch.setattr(Renderer, "__init__", refuse)
    capsys.readouterr()
    assert main(["train", "--resume", str(path), "--total-steps", str(total + 1000)]) == 0
    printed = capsys.readouterr().out
    assert "\nno video: No video can be drawn on this machine: No OpenGL here: install libosmesa6\n" in printed
    assert "wall time" in printed
    assert main(["play", str(path), "--num-episodes", "0", "--video", str(tmp_path / "x.mp4")]) == 2
    assert "No OpenGL here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["play", "missing"], "There is no run or checkpoint 'missing'."),
        (["play", "."], "'.' is neither a run nor a checkpoint, or has no policy yet."),
        (["play", "text"], "The policy cannot be loaded: 'text' is not a whole superdex-gym policy file"),
        (["play", ".", "--num-episodes", "-1"], "--num_episodes must be at least 0, got -1."),
        (["play", ".", "--num-video-envs", "4"], "--num_video_envs 4 says how to make the --video: give"),
        (["play", ".", "--video-seconds", "5"], "--video_seconds 5.0 says how to make the --video: give"),
        (
            ["play", ".", "--video-quality", "fast"],
            "--video_quality fast says how to make the --video: give",
        ),
        (
            ["run", "Ant", "--video-quality", "fast"],
            "--video_quality fast says how to make the --video: give",
        ),
        (["play", ".", "--num-video-envs", "0"], "--num_video_envs must be at least 1, got 0."),
        (
            ["play", ".", "--video-seconds", "inf"],
            "--video_seconds must be positive and at most 1,000,000,000",
        ),
        (["play", ".", "--video", "x.gif"], "--video x.gif: the name must end in .mp4."),
        (["play", ".", "--video", "no/x.mp4"], "--video no/x.mp4: there is no directory no."),
        (["play", ".", "--video", "film.mp4"], "--video film.mp4: this is a directory."),
        (["play", ".", "--onnx", "no/x.onnx"], "--onnx no/x.onnx: there is no directory no."),
        (["play", ".", "--onnx", "x.pt"], "--onnx x.pt: the name must end in .onnx."),
        (["history", "."], ". is not the directory of a training run: it has no config.json."),
        (["history", ".", "--num-checkpoints", "0"], "--num_checkpoints must be at least 1, got 0."),
        (
            ["history", ".", "--video-seconds", "0"],
            "--video_seconds must be positive and at most 1,000,000,000",
        ),
        (["history", ".", "--seed", "-1"], "--seed must be at least 0, got -1."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no policy")
    (tmp_path / "film.mp4").mkdir()

    assert main(args) == 2
    assert capsys.readouterr().err.startswith(f"superdex: error: {message}")


def test_missing_onnx_extra_is_named(finished, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "superdex.lab.apps.extras.find_spec", lambda name: None if name == "onnxruntime" else found(name)
    )

    assert main(["play", str(finished), "--onnx", "x.onnx"]) == 2
    assert "--onnx needs onnxruntime: pip install 'superdex-gym[onnx]'." in capsys.readouterr().err


def test_playing_takes_no_learning_library(finished):
    program = (
        "import sys; from superdex.lab.apps.main import main;"
        f"main(['play', {str(finished)!r}, '--num-episodes', '2']);"
        "sys.exit(bool({'torch', 'stable_baselines3', 'matplotlib', 'onnx'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr

"""Videos and what is done to frames: whole files only, sizes that players take, captions that fit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.video import VideoWriter, caption, tile
from tests.lab.apps.films import read_film

SIZE = (48, 32)


def grey(level: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.full((size[1], size[0], 3), level, np.uint8)


def write_until_refused(video: VideoWriter) -> None:
    for _ in range(100):  # the first may still fit into a buffer
        video.write(grey(0, (480, 320)))


class TestVideoWriter:
    def test_writes_what_players_take(self, tmp_path: Path) -> None:
        path = tmp_path / "grey.mp4"
        with VideoWriter(path, fps=12.5) as video:
            for level in (20, 120, 220):
                video.write(grey(level))
        assert video.num_frames == 3
        film = read_film(path)
        assert (film.codec, film.pixel_format, film.fps) == ("h264", "yuv420p", 12.5)
        assert [frame.mean() for frame in film.frames] == pytest.approx([20, 120, 220], abs=4)
        assert os.listdir(tmp_path) == ["grey.mp4"]

    def test_odd_frames_get_a_row_and_a_column(self, tmp_path: Path) -> None:
        frame = np.random.default_rng(0).integers(0, 255, (33, 47, 3), np.uint8)
        with VideoWriter(tmp_path / "odd.mp4", fps=10) as video:
            video.write(frame)
            video.write(frame[::-1, ::-1])  # not contiguous
        assert read_film(tmp_path / "odd.mp4").frames.shape == (2, 34, 48, 3)

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_interruption_leaves_what_was_there_before(self, tmp_path: Path, error: type[BaseException]) -> None:
        path = tmp_path / "kept.mp4"
        path.write_text("an older video")
        with pytest.raises(error), VideoWriter(path, fps=10) as video:  # noqa: PT012
            video.write(grey(0))
            raise error
        assert path.read_text() == "an older video"
        assert os.listdir(tmp_path) == ["kept.mp4"]
        assert video._encoder.poll() is not None

    def test_dropped_writer_leaves_nothing(self, tmp_path: Path) -> None:
        video = VideoWriter(tmp_path / "dropped.mp4", fps=10)
        video.write(grey(0))
        del video
        assert os.listdir(tmp_path) == []

    def test_encoder_that_dies_is_reported(self, tmp_path: Path) -> None:
        video = VideoWriter(tmp_path / "dead.mp4", fps=10)
        video.write(grey(0, (480, 320)))
        video._encoder.kill()
        video._encoder.wait()
        with pytest.raises(UserError, match=r"could not write the video .*dead\.mp4': exit code -9"):
            write_until_refused(video)
        video.discard()
        assert os.listdir(tmp_path) == []

    def test_failure_at_the_end_is_reported(self, tmp_path: Path) -> None:
        video = VideoWriter(tmp_path / "dead.mp4", fps=10)
        video.write(grey(0))
        video._encoder.kill()
        with pytest.raises(UserError, match="exit code -9"):
            video.close()
        video.close()
        assert os.listdir(tmp_path) == []

    def test_video_without_frames_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="No frame was written"), VideoWriter(tmp_path / "empty.mp4", fps=10):
            pass
        assert os.listdir(tmp_path) == []

    def test_wrong_frames_are_refused(self, tmp_path: Path) -> None:
        with VideoWriter(tmp_path / "v.mp4", fps=10) as video:
            video.write(grey(0))
            for frame in (grey(0, (32, 48)), grey(0).astype(float)):
                with pytest.raises(ValueError, match=r"frames of shape \(32, 48, 3\) and dtype uint8, got"):
                    video.write(frame)
        with pytest.raises(ValueError, match="is closed"):
            video.write(grey(0))

    @pytest.mark.parametrize("frame", [grey(0).astype(float), np.zeros((32, 48), np.uint8), grey(0, (0, 32))])
    def test_wrong_first_frame_is_refused(self, tmp_path: Path, frame: np.ndarray) -> None:
        with VideoWriter(tmp_path / "v.mp4", fps=10) as video:
            with pytest.raises(ValueError, match=r"shape \(height, width, 3\) and dtype uint8, got"):
                video.write(frame)
            video.write(grey(0))

    def test_place_that_is_taken_meanwhile_is_reported(self, tmp_path: Path) -> None:
        video = VideoWriter(tmp_path / "v.mp4", fps=10)
        video.write(grey(0))
        (tmp_path / "v.mp4").mkdir()
        with pytest.raises(UserError, match=r"v\.mp4' cannot be written: Is a directory"):
            video.close()
        assert os.listdir(tmp_path) == ["v.mp4"]

    def test_leftover_of_a_killed_process_goes_and_that_of_a_living_one_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "a [1].mp4"
        (tmp_path / ".unfinished-a [1]-dead.mp4").write_text("half a video")
        (tmp_path / ".unfinished-other-dead.mp4").write_text("of another name")
        first = VideoWriter(path, fps=10)
        first.write(grey(0))
        with VideoWriter(path, fps=10) as second:
            second.write(grey(0))
            second.write(grey(0))
        assert len(read_film(path).frames) == 2
        first.close()
        assert len(read_film(path).frames) == 1
        assert sorted(os.listdir(tmp_path)) == [".unfinished-other-dead.mp4", "a [1].mp4"]

    def test_impossible_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"must end in \.mp4, got"):
            VideoWriter(tmp_path / "video.gif", fps=10)
        with pytest.raises(UserError, match="cannot be written: No such file or directory"):
            VideoWriter(tmp_path / "nowhere" / "video.mp4", fps=10)

    @pytest.mark.parametrize("fps", [0, float("inf"), float("nan")])
    def test_impossible_rate_is_refused(self, tmp_path: Path, fps: float) -> None:
        with pytest.raises(ValueError, match="a positive number of frames per second"):
            VideoWriter(tmp_path / "video.mp4", fps)

    def test_missing_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("superdex.lab.apps.extras.find_spec", lambda name: None)
        with pytest.raises(UserError, match=r"A video needs imageio_ffmpeg, PIL: pip install 'superdex-gym\[video\]'"):
            VideoWriter(tmp_path / "video.mp4", fps=10)

    def test_import_needs_no_extra(self) -> None:
        code = "import sys, superdex.lab.apps.video; assert not {'PIL', 'imageio_ffmpeg'} & set(sys.modules)"
        assert os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", code],
                          {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) == 0  # fmt: skip


class TestTile:
    def test_one_frame_is_itself(self) -> None:
        assert np.array_equal(tile([grey(7)]), grey(7))

    @pytest.mark.parametrize(
        ("count", "columns", "shape"),
        [(2, None, (32, 100)), (4, None, (68, 100)), (5, None, (68, 152)), (3, 1, (104, 48)), (2, 9, (32, 100))],
    )
    def test_grid_is_as_square_as_can_be(self, count: int, columns: int | None, shape: tuple[int, int]) -> None:
        assert tile([grey(0)] * count, columns).shape == (*shape, 3)

    def test_frames_stand_in_reading_order(self) -> None:
        grid = tile([grey(level) for level in (10, 20, 30)])
        assert grid[0, 0, 0] == 10
        assert grid[0, -1, 0] == 20
        assert grid[-1, 0, 0] == 30
        assert tuple(grid[-1, -1]) == tuple(grid[33, 0])  # what is empty looks like the gaps

    def test_impossible_grids_are_refused(self) -> None:
        with pytest.raises(ValueError, match="no frame"):
            tile([])
        with pytest.raises(ValueError, match=r"one shape, got \[\(32, 48, 3\), \(48, 32, 3\)\]"):
            tile([grey(0), grey(0, (32, 48))])
        with pytest.raises(ValueError, match="at least 1 column, got 0"):
            tile([grey(0)], 0)


class TestCaption:
    @pytest.mark.parametrize(
        ("text", "height"),
        [("return 12", 26), ("two\nlines", 44), ("a caption that is much too long for a frame so small as this", 26)],
    )
    def test_stands_above_the_frame_and_covers_nothing(self, text: str, height: int) -> None:
        frame = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
        captioned = caption(frame, text)
        assert captioned.shape == (240 + height, 320, 3)
        assert np.array_equal(captioned[height:], frame)
        strip = captioned[:height]
        assert strip.max() > 240  # light letters
        rows, columns = np.nonzero((strip != strip[0, 0]).any(axis=-1))
        assert rows.min() > 0
        assert rows.max() < height - 1
        assert columns.min() > 0
        assert columns.max() < 319

    def test_frames_of_a_video_stay_of_one_size(self) -> None:
        assert {caption(grey(0, (40, 31)), "9" * count).shape for count in range(1, 40)} == {(57, 40, 3)}

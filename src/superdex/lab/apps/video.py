"""Videos of frames, and what is done to frames on the way: a grid of them, a caption above them.

    with VideoWriter("rollout.mp4", fps=20) as video:
        for frames in rollout:                    # each (480, 640, 3) uint8
            video.write(caption(tile(frames), "step 1 000 000"))

A video is H.264 in an `.mp4` with the pixel format that every player and browser
takes. It appears under its name only when it is whole: until the `with` block ends
without an exception it is a hidden file beside it, which is then removed. If the
process is killed, that file stays until the next video of that name is begun, or
the training run in whose directory it is goes on.

Needs the extra `video` (imageio-ffmpeg brings the encoder, Pillow draws captions).
"""

from __future__ import annotations

import contextlib
import functools
import glob
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

import numpy as np

from superdex.lab.apps.atomic import UNFINISHED, hold, remove_abandoned, umask
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.extras import require_extra
from superdex.physics.rendering import Frame

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

__all__ = ["VideoWriter", "caption", "require_video_extra", "tile"]

_BACKGROUND = (31, 36, 48)
_GAP = 4
_LEAST_LETTERS = 14.0
"""Height of a caption's letters that can still be read with ease [pixels]."""
_CRF = "18"
"""Constant rate factor of the encoder: 18 is hard to tell from the original."""


def require_video_extra() -> None:
    """Raise UserError unless videos can be written and captions drawn on this installation."""
    require_extra("video", "A video", "imageio_ffmpeg", "PIL")


class VideoWriter:
    """Writes an `.mp4` file frame by frame; see the module's docstring.

    The first frame decides the size. H.264 wants even numbers, so an odd frame's last
    column or row is repeated.

    Args:
        path: the file, replaced if it exists; ends in `.mp4`.
        fps: frames per second of the video.

    Raises:
        UserError: if the extra is missing, or the file cannot be made there.
        ValueError: if the rate is impossible.
    """

    def __init__(self, path: str | os.PathLike[str], fps: float) -> None:
        self.path = Path(path)
        if not 0 < fps < math.inf:
            raise ValueError(f"A video has a positive number of frames per second, got {fps}.")
        if self.path.suffix.lower() != ".mp4":
            raise UserError(f"A video's file name must end in .mp4, got {os.fspath(path)!r}.")
        require_video_extra()
        self.num_frames = 0
        """Frames written so far."""
        self._fps = Fraction(fps).limit_denominator(100_000)
        self._shape: tuple[int, ...] = ()
        self._encoder: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (not a pipe, which would have to be read)
        try:
            for part in self.path.parent.glob(f"{UNFINISHED}{glob.escape(self.path.stem)}-*.mp4"):
                remove_abandoned(part)
            self._part, self._lock = _reserve(self.path)
        except BaseException:
            self._messages.close()
            raise

    def write(self, frame: Frame) -> None:
        """Append a frame (height, width, 3) uint8.

        Raises:
            ValueError: if it is something else or not of the first frame's size, or the writer is closed.
            UserError: if the encoder gave up, as on a full disk; the message has its words.
        """
        if self._closed:
            raise ValueError(f"The video {str(self.path)!r} is closed.")
        if self._encoder is None:
            if frame.ndim != 3 or frame.shape[2] != 3 or not frame.size or frame.dtype != np.uint8:
                raise ValueError(
                    f"A video takes frames of shape (height, width, 3) and dtype uint8, got {frame.shape}"
                    f" and {frame.dtype}."
                )
            self._shape = frame.shape
            self._encoder = self._start_encoder()
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(
                f"This video takes frames of shape {self._shape} and dtype uint8, got {frame.shape} and {frame.dtype}."
            )
        height, width, _ = frame.shape
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        assert self._encoder.stdin is not None  # it was started with a pipe
        try:
            self._encoder.stdin.write(np.ascontiguousarray(frame).data)
        except OSError as error:
            raise UserError(self._complaint(self._encoder)) from error
        self.num_frames += 1

    def _start_encoder(self) -> subprocess.Popen[bytes]:
        from imageio_ffmpeg import get_ffmpeg_exe

        height, width = (side + side % 2 for side in self._shape[:2])
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(self._fps), "-i", "-"]
        coding = ["-an", "-c:v", "libx264", "-crf", _CRF, "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        return subprocess.Popen(
            [get_ffmpeg_exe(), "-y", "-v", "error", *source, *coding, str(self._part)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,  # Ctrl-C is for us: whether the video is kept, we decide
        )

    def close(self) -> None:
        """Finish the file and give it its name; harmless when repeated.

        Raises:
            ValueError: if no frame was written; there is then no file.
            UserError: if the encoder failed; a file of that name from before is untouched.
        """
        if self._closed:
            return
        try:
            if self._encoder is None:
                raise ValueError(f"No frame was written to the video {str(self.path)!r}.")
            assert self._encoder.stdin is not None
            whole = True
            try:
                self._encoder.stdin.close()
            except OSError:  # it ended before it had read the last frames
                whole = False
            if self._encoder.wait() != 0 or not whole:
                raise UserError(self._complaint(self._encoder))
            try:
                os.replace(self._part, self.path)
            except OSError as error:
                raise UserError(_cannot_be_written(self.path, error)) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Stop without a file; harmless when repeated, and after `close`."""
        self._closed = True
        if self._encoder is not None:
            if self._encoder.poll() is None:
                self._encoder.kill()
                self._encoder.wait()
            if self._encoder.stdin is not None:
                with contextlib.suppress(OSError):  # what is buffered has no reader any more
                    self._encoder.stdin.close()
        self._part.unlink(missing_ok=True)
        self._lock.close()
        self._messages.close()

    def _complaint(self, encoder: subprocess.Popen[bytes]) -> str:
        encoder.wait()
        self._messages.seek(0)
        words = self._messages.read().decode(errors="replace").strip() or f"exit code {encoder.returncode}"
        first = words.splitlines()[0].rpartition("] ")[2]  # what follows from it, and which part says it, is no help
        return f"The encoder could not write the video {str(self.path)!r}: {first}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.discard()


def _reserve(path: Path) -> tuple[Path, IO[bytes]]:
    """A new hidden file beside `path`, for the video until it is whole, and what holds it while we are at it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{UNFINISHED}{path.stem}-", suffix=".mp4", dir=path.parent)
    except OSError as error:
        raise UserError(_cannot_be_written(path, error)) from error
    os.close(handle)
    lock = hold(Path(name))
    os.chmod(name, 0o666 & ~umask())  # mkstemp's own is for the owner's eyes only
    return Path(name), lock


def _cannot_be_written(path: Path, error: OSError) -> str:
    return f"The video {str(path)!r} cannot be written: {error.strerror or error}."


def tile(frames: Sequence[Frame], columns: int | None = None) -> Frame:
    """One frame that shows `frames`, all of one shape, in rows of `columns` (None: as square as can be)."""
    if not frames:
        raise ValueError("There is no frame to tile.")
    shapes = {frame.shape for frame in frames}
    if len(shapes) > 1:
        raise ValueError(f"Frames in a grid must have one shape, got {sorted(shapes)}.")
    if columns is not None and columns < 1:
        raise ValueError(f"A grid has at least 1 column, got {columns}.")
    columns = min(columns or math.ceil(math.sqrt(len(frames))), len(frames))
    rows = math.ceil(len(frames) / columns)
    height, width, _ = frames[0].shape
    grid = np.empty((rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3), np.uint8)
    grid[:] = _BACKGROUND
    for index, frame in enumerate(frames):
        row, column = divmod(index, columns)
        top, left = row * (height + _GAP), column * (width + _GAP)
        grid[top : top + height, left : left + width] = frame
    return grid


def caption(frame: Frame, text: str) -> Frame:
    """A new frame: `text`, of one or more lines, in a dark strip, and below it `frame`, of which nothing is covered.

    The letters are a twentieth of the frame's height, larger in small frames, or as small as the width asks for. How
    high the strip is depends on the frame's height and the number of lines only: a video's frames stay of one size.

    Raises:
        UserError: if Pillow is missing.
    """
    require_video_extra()
    from PIL import Image, ImageDraw

    height, width, _ = frame.shape
    size = max(height / 20, _LEAST_LETTERS)
    num_lines = text.count("\n") + 1
    strip = Image.new("RGB", (width, 2 * round((0.6 + 1.3 * num_lines) * size / 2)), _BACKGROUND)
    draw = ImageDraw.Draw(strip)
    margin, font = size / 2, _font(size)
    length = draw.multiline_textbbox((0, 0), text, font=font)[2]
    if length > width - 2 * margin:
        font = _font(max(size * (width - 2 * margin) / length, 6.0))
    place = (margin, strip.height / 2)
    draw.multiline_text(place, text, font=font, anchor="lm", spacing=0.3 * size, fill=(255, 255, 255))
    return np.concatenate([np.asarray(strip), frame])


@functools.lru_cache(maxsize=16)
def _font(size: float) -> FreeTypeFont | ImageFont:
    """Letters of that size [pixels]; kept, since to load them takes longer than to draw a caption."""
    from PIL import ImageFont

    return ImageFont.load_default(size)

"""Videos of frames, and what is done to frames on the way: a grid of them, a caption on them.

    with VideoWriter("rollout.mp4", (640, 480), fps=20) as video:
        for frames in rollout:                    # each (480, 640, 3) uint8
            video.write(label(tile(frames), "step 1 000 000"))

A video is H.264 in an `.mp4` with the pixel format that every player and browser
takes. It appears under its name only when it is whole: until the `with` block ends
without an exception it is a hidden file beside it, which is then removed.

Needs the extra `video` (imageio-ffmpeg brings the encoder, Pillow draws captions).
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.extras import require_extra
from superdex.lab.apps.train.atomic import UNFINISHED, umask
from superdex.physics.rendering import Frame

__all__ = ["VideoWriter", "label", "require_video_extra", "tile"]

_BACKGROUND = (31, 36, 48)
_GAP = 4
_CRF = "18"
"""Constant rate factor of the encoder: 18 is hard to tell from the original."""


def require_video_extra() -> None:
    """Raise UserError unless videos can be written and captions drawn on this installation."""
    require_extra("video", "A video", "imageio_ffmpeg", "PIL")


class VideoWriter:
    """Writes an `.mp4` file frame by frame; see the module's docstring.

    Args:
        path: the file, replaced if it exists; ends in `.mp4`.
        size: width and height of the frames [pixels]. H.264 wants even numbers, so an odd
            frame's last column or row is repeated.
        fps: frames per second of the video.

    Raises:
        UserError: if the extra is missing, or the file cannot be made there.
        ValueError: if size or rate are impossible.
    """

    def __init__(self, path: str | os.PathLike[str], size: tuple[int, int], fps: float) -> None:
        self.path = Path(path)
        self.size = (int(size[0]), int(size[1]))
        if min(self.size) < 1 or not 0 < fps < math.inf:
            raise ValueError(f"A video has a size of at least 1 x 1 and a positive rate, got {size} at {fps} fps.")
        if self.path.suffix.lower() != ".mp4":
            raise UserError(f"A video's file name must end in .mp4, got {os.fspath(path)!r}.")
        require_video_extra()
        self.num_frames = 0
        """Frames written so far."""
        width, height = self.size
        self._padding = ((0, height % 2), (0, width % 2), (0, 0))
        self._part = _reserve(self.path)
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (not a pipe, which would have to be read)
        try:
            self._encoder = self._start_encoder(Fraction(fps).limit_denominator(100_000))
        except BaseException:
            self._discard()
            raise

    def _start_encoder(self, fps: Fraction) -> subprocess.Popen[bytes]:
        from imageio_ffmpeg import get_ffmpeg_exe

        width, height = (side + side % 2 for side in self.size)
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
        coding = ["-an", "-c:v", "libx264", "-crf", _CRF, "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        return subprocess.Popen(
            [get_ffmpeg_exe(), "-y", "-v", "error", *source, *coding, str(self._part)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,  # Ctrl-C is for us: whether the video is kept, we decide
        )

    def write(self, frame: Frame) -> None:
        """Append a frame.

        Raises:
            ValueError: if it is not of the video's size and uint8, or the writer is closed.
            RuntimeError: if the encoder gave up; the message has its last words.
        """
        width, height = self.size
        if frame.shape != (height, width, 3) or frame.dtype != np.uint8:
            raise ValueError(
                f"This video takes frames of shape {(height, width, 3)} and dtype uint8,"
                f" got {frame.shape} and {frame.dtype}."
            )
        stream = self._encoder.stdin
        if stream is None or stream.closed:
            raise ValueError(f"The video {str(self.path)!r} is closed.")
        if height % 2 or width % 2:
            frame = np.pad(frame, self._padding, mode="edge")
        try:
            stream.write(np.ascontiguousarray(frame).data)
        except OSError as error:
            raise RuntimeError(self._last_words()) from error
        self.num_frames += 1

    def close(self) -> None:
        """Finish the file and give it its name; harmless when repeated.

        Raises:
            ValueError: if no frame was written; there is then no file.
            RuntimeError: if the encoder failed; a file of that name from before is untouched.
        """
        stream = self._encoder.stdin
        if stream is None or stream.closed:
            return
        try:
            failed = False
            try:
                stream.close()
            except OSError:  # it ended before it had read the last frames
                failed = True
            failed = self._encoder.wait() != 0 or failed
            if not self.num_frames:
                raise ValueError(f"No frame was written to the video {str(self.path)!r}.")
            if failed:
                raise RuntimeError(self._last_words())
            os.replace(self._part, self.path)
        finally:
            self._discard()

    def discard(self) -> None:
        """Stop without a file; harmless when repeated, and after `close`."""
        if self._encoder.poll() is None:
            self._encoder.kill()
            self._encoder.wait()
        if self._encoder.stdin is not None:
            with contextlib.suppress(OSError):  # what is buffered has no reader any more
                self._encoder.stdin.close()
        self._discard()

    def _discard(self) -> None:
        self._messages.close()
        self._part.unlink(missing_ok=True)

    def _last_words(self) -> str:
        self._encoder.wait()
        self._messages.seek(0)
        words = self._messages.read().decode(errors="replace").strip() or f"exit code {self._encoder.returncode}"
        return f"The encoder could not write the video {str(self.path)!r}: {words}"

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
        if hasattr(self, "_encoder"):
            self.discard()


def _reserve(path: Path) -> Path:
    """A new hidden file beside `path`, for the video until it is whole."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{UNFINISHED}{path.stem}-", suffix=".mp4", dir=path.parent)
    except OSError as error:
        raise UserError(f"The video {str(path)!r} cannot be written: {error.strerror or error}.") from error
    os.close(handle)
    os.chmod(name, 0o666 & ~umask())  # mkstemp's own is for the owner's eyes only
    return Path(name)


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


def label(frame: Frame, text: str) -> Frame:
    """A copy of `frame` with `text`, of one or more lines, on a dark plate in its upper left corner.

    The letters are a twentieth of the frame's height, or as small as the width asks for.

    Raises:
        UserError: if Pillow is missing.
    """
    require_video_extra()
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image, "RGBA")
    height, width, _ = frame.shape
    size = max(height / 20, 10.0)
    margin = size / 2
    font = ImageFont.load_default(size)
    length = draw.multiline_textbbox((0, 0), text, font=font)[2]
    if length > width - 4 * margin:
        size = max(size * (width - 4 * margin) / length, 6.0)
        font = ImageFont.load_default(size)
    left, top, right, bottom = draw.multiline_textbbox((2 * margin, 1.6 * margin), text, font=font)
    plate = (left - margin, top - 0.6 * margin, right + margin, bottom + 0.6 * margin)
    draw.rounded_rectangle(plate, radius=margin / 2, fill=(*_BACKGROUND, 190))
    draw.multiline_text((2 * margin, 1.6 * margin), text, font=font, fill=(255, 255, 255, 255))
    return np.asarray(image).copy()

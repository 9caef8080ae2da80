"""What is in a video file, read back by the encoder that the extra brings."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import imageio_ffmpeg
import numpy as np

__all__ = ["Film", "read_film"]


@dataclass(frozen=True)
class Film:
    codec: str
    pixel_format: str
    fps: float
    frames: np.ndarray
    """(n, height, width, 3) uint8"""


def read_film(path: Path) -> Film:
    call = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(call, capture_output=True, check=True)
    found = re.search(r"Video: (\w+).*?, (\w+)[(,].*?(\d+)x(\d+).*?([\d.]+) fps", done.stderr.decode())
    assert found is not None, done.stderr.decode()
    codec, pixel_format, width, height, fps = found.groups()
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, int(height), int(width), 3)
    return Film(codec, pixel_format, float(fps), frames)

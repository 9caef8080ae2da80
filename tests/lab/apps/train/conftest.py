"""Sessions of training that are interrupted."""

import os
import signal

import pytest

from superdex.lab.apps.train.display import LineDisplay


@pytest.fixture
def interrupted_after(monkeypatch):
    """Makes every session send itself SIGINT in that iteration; `times` in a row."""
    update = LineDisplay.update
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run in the background

    def interrupt(iteration, times=1):
        def interrupting(self, row, best):
            update(self, row, best)
            if row.iteration == iteration:
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(LineDisplay, "update", interrupting)

    yield interrupt
    signal.signal(signal.SIGINT, before)

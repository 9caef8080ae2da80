"""Signals that end a process, in order."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from superdex.lab.apps.termination import orderly_termination

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _usual_handlers():
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_signal_is_an_exit_that_runs_to_its_end(number: signal.Signals) -> None:
    steps = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
            steps.append("went on")
        finally:
            for other in NUMBERS:
                os.kill(os.getpid(), other)
            steps.append("cleaned up")

    with pytest.raises(SystemExit) as caught, orderly_termination():
        work()
    assert caught.value.code == 128 + number
    assert steps == ["cleaned up"]
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.SIG_DFL] * 2


def test_signals_that_are_ignored_or_handled_stay_so() -> None:
    def handler(*args: object) -> None:
        pass

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, handler)
    with orderly_termination():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is handler


def test_other_threads_change_nothing() -> None:
    found = []

    def work() -> None:
        with orderly_termination():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert found == [signal.SIG_DFL]

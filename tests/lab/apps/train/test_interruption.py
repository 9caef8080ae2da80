"""What signals do to training."""

import os
import signal
import threading

import pytest

from superdex.lab.apps.termination import orderly_termination
from superdex.lab.apps.train.interruption import Interruption

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _usual_handlers():
    usual = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    before = {number: signal.signal(number, handler) for number, handler in zip(NUMBERS, usual, strict=True)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_first_signal_of_any_kind_asks_for_an_end(number, capfd):
    before = [signal.getsignal(each) for each in NUMBERS]
    with orderly_termination(), Interruption(announce=True) as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested
        os.kill(os.getpid(), signal.SIGHUP)  # a shell sends it after the system has
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(each) for each in NUMBERS] == before
    assert capfd.readouterr().err == "\nsaving after this iteration; Ctrl-C again stops at once\n"


def test_ignored_signals_stay_so():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interruption(announce=False) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.requested
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_threads_change_nothing():
    seen = []

    def enter():
        with Interruption(announce=True):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(60)
    assert seen == [signal.default_int_handler]

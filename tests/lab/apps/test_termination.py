"""Signals that end a process, in order."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading

import pytest

from superdex.lab.apps import termination
from superdex.lab.apps.termination import orderly_termination

TERMINATION = (signal.SIGTERM, signal.SIGHUP)
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}


@pytest.fixture(autouse=True)
def _usual_handlers():
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", TERMINATION)
def test_signal_is_an_exit_that_runs_to_its_end(number: signal.Signals) -> None:
    steps = []

    def work() -> None:
        try:
            send(number)
            steps.append("went on")
        finally:
            for other in TERMINATION:
                send(other)
            steps.append("cleaned up")

    with pytest.raises(SystemExit) as caught, orderly_termination():
        work()
    assert caught.value.code == 128 + number
    assert steps == ["cleaned up"]
    assert {each: signal.getsignal(each) for each in USUAL} == USUAL


def test_every_interrupt_is_raised() -> None:
    def work() -> None:
        try:
            send(signal.SIGINT)
        finally:
            send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught, orderly_termination():
        work()
    assert isinstance(caught.value.__context__, KeyboardInterrupt)


class TurnsAway(ctypes.c_int):
    """An argument's type, whose conversion is in Python, where a signal may come: so are those of OpenGL's contexts."""

    number = signal.SIGTERM

    @classmethod
    def from_param(cls, value: object) -> object:
        send(cls.number)
        return value


def in_ctypes(number: signal.Signals) -> None:
    TurnsAway.number = number
    absolute = ctypes.CDLL(None).abs
    absolute.argtypes = [TurnsAway]
    absolute(1)


def in_cleanup(number: signal.Signals) -> None:
    try:
        send(number)
    finally:
        raise ValueError("half done")


def in_code_that_goes_on(number: signal.Signals) -> None:
    with contextlib.suppress(ctypes.ArgumentError):
        in_ctypes(number)


def in_del(number: signal.Signals) -> None:
    class Resource:
        def __del__(self) -> None:
            send(number)

    Resource()


@pytest.mark.parametrize("work", [in_ctypes, in_cleanup, in_code_that_goes_on, in_del])
@pytest.mark.parametrize("number", TERMINATION)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_exit_is_not_lost_wherever_the_signal_comes(work, number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as caught, orderly_termination():
        work(number)
    assert caught.value.code == 128 + number


@pytest.mark.parametrize("work", [in_ctypes, in_cleanup])
def test_interrupt_is_not_taken_for_an_error(work) -> None:
    with pytest.raises(KeyboardInterrupt), orderly_termination():
        work(signal.SIGINT)


def test_interrupt_may_be_answered() -> None:
    with orderly_termination(), contextlib.suppress(KeyboardInterrupt):
        send(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signal_is_heard_again_after_one_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_SECONDS_TO_LEAVE", 0.0)
    steps = []

    def work() -> None:
        in_del(signal.SIGTERM)
        steps.append("lost")
        send(signal.SIGTERM)
        steps.append("lost again")

    with pytest.raises(SystemExit), orderly_termination():
        work()
    assert steps == ["lost"]


def test_errors_without_a_signal_pass() -> None:
    with pytest.raises(ValueError, match="alone"), orderly_termination():
        raise ValueError("alone")


def test_signals_that_are_ignored_or_handled_stay_so() -> None:
    def handler(*args: object) -> None:
        pass

    own = {signal.SIGHUP: signal.SIG_IGN, signal.SIGTERM: handler, signal.SIGINT: handler}
    for number, each in own.items():
        signal.signal(number, each)
    with orderly_termination():
        assert {number: signal.getsignal(number) for number in own} == own
    assert {number: signal.getsignal(number) for number in own} == own


def test_other_threads_change_nothing() -> None:
    found = []

    def work() -> None:
        with orderly_termination():
            found.extend(signal.getsignal(number) for number in USUAL)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert found == list(USUAL.values())

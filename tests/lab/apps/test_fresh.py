"""Measurements run in processes of their own."""

import os
import time

import pytest

from superdex.lab.apps.bench import fresh
from superdex.lab.apps.bench.fresh import MeasurementError, in_fresh_process


def test_result_comes_from_another_process():
    assert in_fresh_process(os.getpid) != os.getpid()
    assert in_fresh_process(divmod, 7, 2) == (3, 1)


def test_what_the_function_prints_does_not_mix_with_its_result(capfd):
    assert in_fresh_process(os.system, "echo from a child process") == 0
    assert in_fresh_process(print, "from python") is None

    captured = capfd.readouterr()
    assert "from a child process" in captured.err
    assert "from python" in captured.err
    assert captured.out == ""


def test_failure_is_reported_and_its_traceback_printed(capfd):
    with pytest.raises(MeasurementError, match=r"divmod\(1, 0\) failed with exit code 1"):
        in_fresh_process(divmod, 1, 0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_measurement_that_hangs_is_named_and_killed(monkeypatch):
    monkeypatch.setattr(fresh, "_LIMIT_SECONDS", 0.5)
    with pytest.raises(MeasurementError, match=r"^sleep\(60\) did not end within 0\.5 s, and was killed\.$"):
        in_fresh_process(time.sleep, 60)


def test_process_has_not_imported_the_command_line():
    measuring = "superdex.lab.apps.bench.sweep"  # imports everything that its measurements do
    modules = in_fresh_process(eval, f"__import__({measuring!r}) and sorted(__import__('sys').modules)")

    assert measuring in modules
    assert not {"tyro", "rich", "matplotlib"} & set(modules)

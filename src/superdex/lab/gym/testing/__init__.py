"""Checks for authors of tasks: `superdex check` as a library.

from superdex.lab.gym.testing import assert_task_ok

def test_reacher():
    assert_task_ok(ReacherEnv)
"""

from superdex.lab.gym.testing.checking import CHECKS, assert_task_ok, check_task
from superdex.lab.gym.testing.outcomes import Verdict

__all__ = ["CHECKS", "Verdict", "assert_task_ok", "check_task"]

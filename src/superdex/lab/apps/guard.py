"""What a subcommand does when the task that it works on fails: tell the author, without our own workings around it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task
from superdex.lab.apps.train.failure import describe_task_failure

__all__ = ["guarded"]

_FAILED = 1


def guarded(task: Task, work: Callable[[], object]) -> int:
    """Do `work` with a task; returns the exit code.

    It is 0, or 1 if code of the task's own raised an exception, which is then printed with that code's part of the
    traceback. Any other exception may be a bug of ours, and goes on.
    """
    try:
        work()
    except UserError:
        raise
    except Exception as error:
        if not task.is_ours:
            cfg = [f"{name}={value!r}" for name, value in task.cfg]
            check = shlex.join(["superdex", "check", task.task_id, *(["--cfg", *cfg] if cfg else [])])
            error.add_note(f"To see what is wrong with the task: {check}")
        description = describe_task_failure(error, task)
        if description is None:
            raise
        print(description, file=sys.stderr)
        return _FAILED
    return 0

"""An exception in a task, told to its author without our own workings around it.

    return guarded(task, lambda: play(task))     # the exit code

If the task's own code raised it, the frames of the machinery around that code are left out. If the task broke a
rule, the message says how, and no frame would say more. All else may be a bug of ours, and keeps its
whole traceback.
"""

from __future__ import annotations

import re
import shlex
import sys
import traceback
from collections.abc import Callable

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task, format_cfg
from superdex.lab.gym.adapters.errors import TrainingDiverged
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.errors import TaskError
from superdex.lab.gym.vector.errors import WorkerError

__all__ = ["describe_task_failure", "guarded", "note_check", "own_part"]

_FAILED = 1
_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>.+)", line \d+, in ')
_LIBRARY = re.compile(r"[/\\]superdex[/\\](lab|physics)[/\\]")


def guarded(task: Task, work: Callable[[], object]) -> int:
    """Do `work` with a task; returns the exit code.

    It is 0, or 1 if the task failed or training diverged, which is then said on standard error. Any other exception
    may be a bug of ours, and goes on.
    """
    try:
        work()
    except UserError:
        raise
    except TrainingDiverged as error:
        print("\n".join([f"superdex: error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return _FAILED
    except Exception as error:
        note_check(error, task)
        description = describe_task_failure(error, task)
        if description is None:
            raise
        print(description, file=sys.stderr)
        return _FAILED
    return 0


def note_check(error: Exception, task: Task) -> None:
    """Add a note that names the command which tells more of the task, if that is not one of ours; once."""
    cfg = ["--cfg", *format_cfg(dict(task.cfg))] if task.cfg else []
    note = f"To see what is wrong with the task: {shlex.join(['superdex', 'check', task.task_id, *cfg])}"
    if not task.is_ours and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def describe_task_failure(error: Exception, task: Task) -> str | None:
    """What to print about an exception of the task's making, raised here or in a worker; None for any other."""
    remote = next((each for each in (error, error.__cause__) if isinstance(each, WorkerError)), None)
    text = remote.worker_traceback if remote is not None else ""
    part = own_part(text or "".join(traceback.format_exception(error)), task.env_class)
    if part is None and isinstance(error, TaskError) and not task.is_ours:
        part = str(error)  # it broke a rule
    if part is None:
        return None
    notes = [note for note in getattr(error, "__notes__", ()) if note not in part]  # a worker's has its own already
    return "\n".join([f"superdex: error: the task {task.task_id} failed.", part, *notes])


def own_part(text: str, env_class: type[MochiEnv]) -> str | None:
    """A traceback without the frames that lead to a task's own code, and without this library's after that.

    Args:
        text: as Python prints it, with that of its causes if there are any.
        env_class: its module, and those of the classes that it derives from, are the task's own code; those
            of this library are not.

    Returns:
        None if no frame is in the task's own code.
    """
    files, endings = _sources(env_class)
    kept: list[str] = []
    inside = shown = found = False
    for line in text.rstrip().splitlines():
        frame = _FRAME.match(line)
        if line == _BEGIN:
            inside = shown = False
        elif frame is not None:
            file, ours = frame["file"], _LIBRARY.search(frame["file"]) is not None
            own = file in files or (file.endswith(endings) and not ours)
            inside = inside or own
            found = found or own
            shown = own or (inside and not ours)
        elif not line.startswith("    "):
            shown = True  # the exception itself, or words between two tracebacks
        if shown or line == _BEGIN:
            kept.append(line)
    return "\n".join(kept) if found else None


def _sources(env_class: type[MochiEnv]) -> tuple[set[str], tuple[str, ...]]:
    """The files of a task's own code, and how their names end on another machine."""
    own = env_class.__mro__[: env_class.__mro__.index(MochiEnv)]
    modules = {each.__module__ for each in own if not each.__module__.startswith("superdex.")}
    files = {getattr(sys.modules.get(module), "__file__", None) for module in modules}
    paths = [module.replace(".", "/") for module in modules]
    return {file for file in files if file}, tuple(f"/{path}{end}" for path in paths for end in (".py", "/__init__.py"))

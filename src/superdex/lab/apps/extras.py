"""Optional libraries: told to be missing before time is wasted, with the extra that brings them."""

from __future__ import annotations

from importlib.util import find_spec

from superdex.lab.apps.errors import UserError

__all__ = ["require_extra"]


def require_extra(extra: str, purpose: str, *modules: str) -> None:
    """Raise UserError unless all `modules` are installed; imports none of them.

    Args:
        extra: which of the distribution's extras has them, as in "train".
        purpose: what needs them, as in "`superdex train`" or "--onnx".
        modules: their top-level names.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UserError(f"{purpose} needs {', '.join(missing)}: pip install 'superdex-gym[{extra}]'.")

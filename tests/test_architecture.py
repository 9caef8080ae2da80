"""The shape of the code: which layer may import which, and what each module owes its reader."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
MAX_LINES = 300

# From the bottom up; a module may import its own layer and those before it. The longest prefix counts.
LAYERS = [
    ("physics", ["superdex.physics"]),
    ("envs", ["superdex.lab.gym.envs"]),
    ("vector", ["superdex.lab.gym.vector", "superdex.lab.gym.utils", "superdex.lab.gym.testing"]),
    ("learning", ["superdex.lab.gym.rollouts", "superdex.lab.gym.adapters", "superdex.lab.gym.distributed"]),
    ("registration", ["superdex.lab.gym", "superdex.lab.gym.registration"]),
    ("apps", ["superdex.lab.apps"]),
]
ROOTS = {"superdex", "superdex.lab"}


def layer_of(module: str) -> int:
    matches = [
        (len(prefix), index)
        for index, (_, prefixes) in enumerate(LAYERS)
        for prefix in prefixes
        if module == prefix or module.startswith(f"{prefix}.")
    ]
    return max(matches)[1]


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def imports_of(module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported, wherever it stands."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full in MODULES else node.module


def test_the_layers_are_found() -> None:
    assert {layer_of(module) for module in MODULES if module not in ROOTS} >= {0, 1, 2, 3}


@pytest.mark.parametrize("module", [module for module in MODULES if module not in ROOTS])
def test_imports_point_downwards(module: str) -> None:
    own = layer_of(module)
    for line, imported in imports_of(module):
        if imported.split(".")[0] == "superdex" and imported not in ROOTS:
            assert layer_of(imported) <= own, (
                f"{module}:{line}: {LAYERS[own][0]} must not import {imported}, of {LAYERS[layer_of(imported)][0]}"
            )


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("superdex.physics")])
def test_physics_knows_nothing_of_reinforcement_learning(module: str) -> None:
    for line, imported in imports_of(module):
        assert imported.split(".")[0] != "gymnasium", f"{module}:{line}"
        assert not imported.startswith("superdex.lab"), f"{module}:{line}"


@pytest.mark.parametrize("module", MODULES)
def test_all_is_defined_and_truthful(module: str) -> None:
    statements = tree_of(module).body
    if all(isinstance(statement, ast.Expr) for statement in statements):
        return  # a docstring only
    namespace = importlib.import_module(module)
    assert hasattr(namespace, "__all__"), f"{module} has no __all__"
    exported = list(namespace.__all__)
    assert len(set(exported)) == len(exported)
    for name in exported:
        assert hasattr(namespace, name), f"{module}.__all__ names {name}, which is not there"
        assert not name.startswith("_")
    if MODULES[module].name == "__init__.py":
        return
    defined = {s.name for s in statements if isinstance(s, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = {
        alias.asname or alias.name.split(".")[0]
        for statement in statements
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for alias in statement.names
    }
    if defined:
        assert imported.isdisjoint(exported), f"{module}.__all__ exports what it imports"


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_long(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= MAX_LINES


def public_definitions(module: str) -> Iterator[tuple[str, ast.AST]]:
    """Public classes, functions and methods; what a private class defines is private."""

    def visit(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_"):
                    continue
                if any("setter" in ast.unparse(decorator) for decorator in node.decorator_list):
                    continue
                yield f"{prefix}{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from visit(node.body, f"{prefix}{node.name}.")

    return visit(tree_of(module).body, "")


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_has_a_docstring(module: str) -> None:
    assert ast.get_docstring(tree_of(module)), f"{module} has no docstring"
    missing = [name for name, node in public_definitions(module) if not ast.get_docstring(node)]  # type: ignore[arg-type]
    assert missing == []

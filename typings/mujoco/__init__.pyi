# MuJoCo's extension modules carry no types: everything in them is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...

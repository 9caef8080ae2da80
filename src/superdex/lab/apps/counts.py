"""Numbers on the command line, as people write them: a count is 300000, 300_000 or 3e5.

These are the types of options. Were they plain `int | None`, the parser would answer a typing error with
the names of Python's types.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from tyro.constructors import PrimitiveConstructorSpec

__all__ = ["Count", "Counts", "Number", "Real", "parse_count"]

_LIMIT = 2**63
"""Beyond it lies nothing that could be counted, and 1e999999999 would not fit into memory."""


def parse_count(text: str) -> int:
    """The whole number that `text` writes, in digits with or without underscores, or with an exponent.

    Raises:
        ValueError: if it is none, or a huge one; the parser adds which option it was given to.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not (number.is_finite() and -_LIMIT < number < _LIMIT) or number != number.to_integral_value():
        raise ValueError(f"must be a whole number, such as 16, 300_000 or 3e5, got {text!r}.")
    return int(number)


def _parse_real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"must be a number, such as 0.99 or 3e-4, got {text!r}.") from None


def _option(
    metavar: str, kind: type, parse: Callable[[list[str]], Any], nargs: Literal[1, "*"] = 1
) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=nargs,
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: list(map(str, value)) if isinstance(value, tuple) else [str(value)],
    )


_COUNT = _option("N", int, lambda texts: parse_count(texts[0]))

Count = Annotated[int | None, _COUNT]
"""The type of an option that takes a count; None is for "not given", and cannot be typed, here and below."""
Number = Annotated[int, _COUNT]
"""The same for an option that has a number as its default."""
Counts = Annotated[
    tuple[int, ...] | None, _option("N [N ...]", tuple, lambda texts: tuple(map(parse_count, texts)), "*")
]
"""Several counts."""
Real = Annotated[float | None, _option("X", float, lambda texts: _parse_real(texts[0]))]
"""A number of any kind."""

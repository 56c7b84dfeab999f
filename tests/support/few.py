"""Which cases of many the short run takes; all others are `long`.

one_in(4, CASES)              each fourth, from the first on
one_in(4, CASES, first=2)     each fourth, from the third on
none_of(CASES)                none
"""

from collections.abc import Iterable
from typing import Any

import pytest

_PARAMETERS = type(pytest.param())


def one_in(number: int, cases: Iterable[Any], first: int = 0) -> list[Any]:
    """The cases as parameters, those with marks too; a tuple is the values of several."""
    return [
        _parameters(case, () if n % number == first else (pytest.mark.long,))
        for n, case in enumerate(cases)
    ]


def none_of(cases: Iterable[Any]) -> list[Any]:
    """Likewise."""
    return [_parameters(case, (pytest.mark.long,)) for case in cases]


def _parameters(case: Any, marks: tuple[Any, ...]) -> Any:
    if isinstance(case, _PARAMETERS):
        return pytest.param(*case.values, marks=(*case.marks, *marks), id=case.id)
    values = case if type(case) is tuple else (case,)  # and not one that has names
    return pytest.param(*values, marks=marks)

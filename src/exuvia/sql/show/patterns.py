"""LIKE over names: % any text, _ one character, a backslash escapes; case does not count."""

import re
from collections.abc import Callable


def like_pattern(pattern: str) -> Callable[[str], bool]:
    """Whether a name fits the pattern."""
    parts = []
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\" and position + 1 < len(pattern):
            position += 1
            parts.append(re.escape(pattern[position]))
        else:
            parts.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
        position += 1
    compiled = re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None

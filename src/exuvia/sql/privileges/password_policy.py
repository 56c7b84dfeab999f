"""The rules for new passwords: the variables validate_password.*, as TiDB reads them.

    LOW       at least `length` characters
    MEDIUM    also the required numbers of letters of both cases, digits and other characters
    STRONG    also no word of the dictionary, in any case: words of 4 to 100 characters,
              separated by ;

With `check_user_name` the password must not contain the user name of the session, also not
reversed, under any policy. Hashes (AS 'hash') cannot be checked.
"""

from collections.abc import Callable, Iterable, Iterator

from exuvia.base.mysql_errors import ErrNotValidPassword

Settings = Callable[[str], str]
"""The global value of a variable."""
LOW, MEDIUM, STRONG = "LOW", "MEDIUM", "STRONG"
_WORD_CHARS = range(4, 101)
_SHORTEST = 4  # shortest password with a strength above 0


def is_enabled(settings: Settings) -> bool:
    return settings("validate_password.enable") == "ON"


def demand(settings: Settings, names: Iterable[str], password: str) -> None:
    """Raises 1819 for the first unmet rule. `names`: the user names of the session."""
    if not is_enabled(settings):
        return
    policy = settings("validate_password.policy")
    levels = (LOW, MEDIUM, STRONG)
    faults = [*_of_names(settings, names, password)]
    for level in levels[: levels.index(policy) + 1]:
        faults += _FAULTS[level](settings, password)
    if faults:
        raise ErrNotValidPassword(faults[0])


def strength(settings: Settings, names: Iterable[str], password: str) -> int:
    """The value of VALIDATE_PASSWORD_STRENGTH: 0, 25, 50, 75 or 100."""
    if not is_enabled(settings) or len(password) < _SHORTEST:
        return 0
    if any(_of_names(settings, names, password)):
        return 0
    for reached, level in ((25, LOW), (50, MEDIUM), (75, STRONG)):
        if any(_FAULTS[level](settings, password)):
            return reached
    return 100


def _of_names(settings: Settings, names: Iterable[str], password: str) -> Iterator[str]:
    if settings("validate_password.check_user_name") != "ON":
        return
    for name in filter(None, names):
        if name in password:
            yield "Password Contains User Name"
        if name[::-1] in password:
            yield "Password Contains Reversed User Name"


def _of_length(settings: Settings, password: str) -> Iterator[str]:
    least = int(settings("validate_password.length"))
    if len(password) < least:
        yield f"Require Password Length: {least}"


def _of_characters(settings: Settings, password: str) -> Iterator[str]:
    mixed = int(settings("validate_password.mixed_case_count"))
    lower, upper = sum(map(str.islower, password)), sum(map(str.isupper, password))
    digits = sum(map(str.isdecimal, password))
    for what, count, least in (
        ("Lowercase", lower, mixed),
        ("Uppercase", upper, mixed),
        ("Digit", digits, int(settings("validate_password.number_count"))),
        (
            "Non-alphanumeric",
            len(password) - lower - upper - digits,
            int(settings("validate_password.special_char_count")),
        ),
    ):
        if count < least:
            yield f"Require Password {what} Count: {least}"


def _of_dictionary(settings: Settings, password: str) -> Iterator[str]:
    words = settings("validate_password.dictionary").lower().split(";")
    lower_password = password.lower()
    if any(len(word) in _WORD_CHARS and word in lower_password for word in words):
        yield "Password contains word in the dictionary"


_FAULTS: dict[str, Callable[[Settings, str], Iterator[str]]] = {
    LOW: _of_length,
    MEDIUM: _of_characters,
    STRONG: _of_dictionary,
}

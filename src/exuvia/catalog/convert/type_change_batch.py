"""Many values of a column converted at once, with the same results and the same refusals as
type_change.py has for one:

    integers to integers         a range check; the bits stay
    integers to DECIMAL(<= 18)   multiplied by the scale, within the range
    integers to FLOAT, DOUBLE    numpy, where no digits are asked for
    integers to text             Arrow's text of the number, its length
    text to integers             Arrow's number, where every text is digits and no more than a sign
    text to text, bytes to bytes lengths, characters; CHAR loses trailing spaces
    anything else                each different value once

Where a chunk holds a value that is refused, its values are looked at one by one: `offenders` says
which.

A module of its own: it loads Arrow, and a front that only writes rows does not.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import WarnDataTruncated
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.columns import Array, Vector, mixed, vector_of
from exuvia.catalog.convert.charset_codecs import NARROW_CODECS
from exuvia.catalog.convert.type_change import ColumnChange, is_by_arrays
from exuvia.catalog.convert.values import bounds_of

_DOUBLE_DIGITS = 1 << 53
_PLAIN_INTEGER = r"\A-?[0-9]{1,18}\z"  # of int64 for certain


def converted_batch(change: ColumnChange, vector: Vector, kept: Vector | None = None) -> Vector:
    """The values converted; those of `kept`, the former ones of the same rows, where they are not
    NULL. Refused as the first that does not fit is."""
    if kept is None:
        return _converted(change, vector)
    former = kept._replace(field=change.new or kept.field, nulls=None)
    if kept.nulls is None:
        return former
    there, lost = np.flatnonzero(~kept.nulls), np.flatnonzero(kept.nulls)
    if not len(there):
        return _converted(change, vector)
    parts = [(there, former.take(there)), (lost, _converted(change, vector.take(lost)))]
    return mixed(parts, len(kept.nulls))


def _converted(change: ColumnChange, vector: Vector) -> Vector:
    new = change.new
    assert new is not None, change.name
    if change.not_null and change.null is None and vector.nulls is not None:
        raise null_refused(change.name)
    converted = _converted_as_arrays(change, vector, new)
    if converted is None:
        known: dict[Value, Value] = {None: None}
        values = []
        for value in vector.to_list():
            key = repr(value) if value == 0.0 else value  # 0.0 == -0.0, but their texts differ
            if key not in known:
                known[key] = change.convert(value)
            values.append(known[key])
        converted = vector_of(values, new)
    return converted if change.null is None else _without_nulls(converted, change.null)


def null_refused(name: str) -> Refused:
    """What a NULL among the rows of a column that is to be NOT NULL meets."""
    return WarnDataTruncated(name, 1)


def offenders(change: ColumnChange, vector: Vector, kept: Vector | None = None) -> list[int]:
    """Positions of the values that are refused; see `converted_batch`."""
    try:
        converted_batch(change, vector, kept)
    except Refused:
        is_asked = np.ones(len(vector.values), bool) if kept is None else _nulls_of(kept)
        values = zip(vector.to_list(), is_asked.tolist(), strict=True)
        return [
            n for n, (value, asked) in enumerate(values) if asked and _refusal_of(change, value)
        ]
    return []


def _nulls_of(vector: Vector) -> Array:
    none: Array = np.zeros(len(vector.values), bool)
    return none if vector.nulls is None else vector.nulls


def error_of(change: ColumnChange, value: Value) -> Refused:
    """The refusal of a value that `offenders` named."""
    found = _refusal_of(change, value)
    assert found is not None, value
    return found


def _refusal_of(change: ColumnChange, value: Value) -> Refused | None:
    if value is None:
        return null_refused(change.name) if change.not_null and change.null is None else None
    try:
        change.convert(value)
    except Refused as error:
        return error
    return None


def _converted_as_arrays(change: ColumnChange, vector: Vector, new: FieldType) -> Vector | None:
    old = vector.field
    if not is_by_arrays(old, new):
        return None
    if old.Tp in INTEGER_BITS:
        live: Array = vector.values if vector.nulls is None else vector.values[~vector.nulls]
        least, most = (int(live.min()), int(live.max())) if len(live) else (0, 0)
        if new.Tp in INTEGER_BITS:
            low, high = bounds_of(new)
            if not low <= least <= most <= high:
                return None
            return Vector(new, vector.values.astype("<u8" if new.unsigned else "<i8"), vector.nulls)
        if new.family == Family.DECIMAL:
            unit, scale = 10 ** decimals.scale_of(new), decimals.scale_of(new)
            bound = 10 ** (decimals.precision_of(new) - scale)
            narrow = decimals.width_of(new) == 8
            if not narrow or max(abs(least), most) >= bound or (new.unsigned and least < 0):
                return None
            return Vector(new, vector.values.astype("<i8") * np.int64(unit), vector.nulls)
        if new.Tp == TypeCode.DOUBLE and new.Decimal < 0 and not (new.unsigned and least < 0):
            wide = max(abs(least), most) > _DOUBLE_DIGITS
            return None if wide else Vector(new, vector.values.astype("<f8"), vector.nulls)
        if new.family == Family.STRING:
            text = pa.array(vector.values, mask=vector.nulls).cast(pa.string())
            return _texts_of_batch(Vector(new, text, vector.nulls), new)
        return None
    if new.Tp in INTEGER_BITS:
        return _integers_of_texts(vector, new)
    return _texts_of_batch(vector, new)


def _integers_of_texts(vector: Vector, new: FieldType) -> Vector | None:
    plain = pc.all(pc.match_substring_regex(vector.values, _PLAIN_INTEGER), min_count=0).as_py()
    if not plain:
        return None
    numbers = np.asarray(vector.values.cast(pa.int64()).fill_null(0))
    low, high = bounds_of(new)
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if not low <= least <= most <= high:
        return None
    return Vector(new, numbers.astype("<u8" if new.unsigned else "<i8"), vector.nulls)


_BEYOND = {"ascii": r"[^\x00-\x7f]", "utf8": r"[\x{10000}-\x{10ffff}]"}


def are_all_of(values: Array, charset: str) -> bool:
    """Whether a charset has every character of Arrow texts; False where only a look at each text
    can tell (a charset of some characters, beyond ASCII)."""
    if charset in NARROW_CODECS:
        return bool(pc.all(pc.string_is_ascii(values), min_count=0).as_py())
    if charset not in _BEYOND:
        return True
    beyond = pc.match_substring_regex(values, _BEYOND[charset])
    return not pc.any(beyond, min_count=0).as_py()


def _texts_of_batch(vector: Vector, new: FieldType) -> Vector | None:
    values = vector.values
    if not are_all_of(values, new.Charset):
        return None
    if new.Tp == TypeCode.STRING and new.family == Family.STRING:
        values = pc.utf8_rtrim(values, " ")
    in_bytes = new.Tp in TEXT_BLOBS or new.family == Family.BYTES
    lengths = pc.binary_length(values) if in_bytes else pc.utf8_length(values)
    longest = pc.max(lengths).as_py()
    if longest is not None and 0 <= new.Flen < longest:
        return None
    return Vector(new, values, vector.nulls)


def _without_nulls(vector: Vector, null: Value) -> Vector:
    if vector.nulls is None:
        return vector
    return vector_of([null if v is None else v for v in vector.to_list()], vector.field)

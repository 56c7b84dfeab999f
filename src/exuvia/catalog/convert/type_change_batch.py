"""Converts many values of a column at once, with the results and refusals of type_change.py:

    integers to integers         a range check; the bits do not change
    integers to DECIMAL(<= 18)   multiplied by the scale, within the range
    integers to FLOAT, DOUBLE    numpy, if no digits are declared
    integers to text             Arrow's text of the number, its length
    text to integers             Arrow's number, if every text is digits with at most a sign
    text to text, bytes to bytes lengths, characters; CHAR loses trailing spaces
    anything else                each distinct value once

If a chunk has a refused value, its values are checked one by one; `offenders` returns their
positions.

This module is separate because it imports Arrow, which a front that only writes rows does not need.
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
_PLAIN_INTEGER = r"\A-?[0-9]{1,18}\z"  # certainly an int64


def converted_batch(
    change: ColumnChange, vector: Vector, former_values: Vector | None = None
) -> Vector:
    """The converted values, replaced by `former_values` of the same rows if those are not NULL.
    Raises the refusal of the first value that does not fit."""
    if former_values is None:
        return _converted(change, vector)
    former = former_values._replace(field=change.new or former_values.field, nulls=None)
    if former_values.nulls is None:
        return former
    there, lost = np.flatnonzero(~former_values.nulls), np.flatnonzero(former_values.nulls)
    if not len(there):
        return _converted(change, vector)
    parts = [(there, former.take(there)), (lost, _converted(change, vector.take(lost)))]
    return mixed(parts, len(former_values.nulls))


def _converted(change: ColumnChange, vector: Vector) -> Vector:
    new = change.new
    assert new is not None, change.name
    if change.not_null and change.null is None and vector.nulls is not None:
        raise null_refused(change.name)
    converted = _converted_as_arrays(change, vector, new)
    if converted is None:
        results: dict[Value, Value] = {None: None}
        values = []
        for value in vector.to_list():
            key = repr(value) if value == 0.0 else value  # 0.0 == -0.0, but their texts differ
            if key not in results:
                results[key] = change.convert(value)
            values.append(results[key])
        converted = vector_of(values, new)
    return converted if change.null is None else _without_nulls(converted, change.null)


def null_refused(name: str) -> Refused:
    """The error for a NULL in a column that becomes NOT NULL."""
    return WarnDataTruncated(name, 1)


def offenders(
    change: ColumnChange, vector: Vector, former_values: Vector | None = None
) -> list[int]:
    """Positions of the refused values; see `converted_batch`."""
    try:
        converted_batch(change, vector, former_values)
    except Refused:
        needed = (
            np.ones(len(vector.values), bool) if former_values is None else _nulls_of(former_values)
        )
        values = zip(vector.to_list(), needed.tolist(), strict=True)
        return [
            n
            for n, (value, is_needed) in enumerate(values)
            if is_needed and _refusal_of(change, value)
        ]
    return []


def _nulls_of(vector: Vector) -> Array:
    none: Array = np.zeros(len(vector.values), bool)
    return none if vector.nulls is None else vector.nulls


def error_of(change: ColumnChange, value: Value) -> Refused:
    """The refusal of a value from `offenders`."""
    refusal = _refusal_of(change, value)
    assert refusal is not None, value
    return refusal


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
    """Whether a charset has every character of Arrow texts.

    False if each text must be checked: a charset of some characters, beyond ASCII."""
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

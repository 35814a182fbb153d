"""Reading and writing parts of a traced array: `x[i, 2:8, None, ..., -1]`, and integer arrays on one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from irscope.frontends.tracing.record import Traced, refused
from irscope.frontends.tracing.shapes import view_of
from irscope.frontends.tracing.ufuncs import as_traced, assign

__all__ = ["get_item", "set_item"]


def get_item(array: Any, key: Any) -> Any:
    """What `array[key]` is: a view, or a copy where the key holds an array of integers."""
    return _taken(array, _expanded(array, key))


def set_item(array: Any, key: Any, value: Any) -> None:
    """What `array[key] = value` does, in place: other views of the same memory show it."""
    items = _expanded(array, key)
    if any(_is_array(item) for item in items):
        mask = next(
            (item for item in items if _is_array(item) and np.asarray(getattr(item, "dtype", item)).dtype == bool), None
        )
        hint = (
            "np.where(mask, value, x) does it for masks"
            if mask is not None
            else "build the result with np.where or np.stack"
        )
        raise refused("an array is written through an array of indices", hint)
    if any(isinstance(item, slice) and (item.step or 1) < 0 for item in items):
        raise refused("a reversed slice is written", "write the slice forwards, and reverse the value")
    assign(_taken(array, items), value)


def _expanded(array: Any, key: Any) -> list[Any]:
    """The key with one item for each axis, and None where an axis is inserted."""
    items = list(key) if isinstance(key, tuple) else [key]
    for place, item in enumerate(items):
        if isinstance(item, list):
            items[place] = np.asarray(item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > array.ndim:
        raise refused(f"{used} indices are given for an array of {array.ndim} dimensions", wrong_arguments=True)
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise refused("an index has at most one ellipsis", wrong_arguments=True)
    where = places[0] if places else len(items)
    return [*items[:where], *(slice(None) for _ in range(array.ndim - used)), *items[where + 1 :]]


def _is_array(item: Any) -> bool:
    return isinstance(item, Traced | np.ndarray) and not (item.ndim == 0 and isinstance(item, np.ndarray))


def _taken(array: Any, items: list[Any]) -> Any:
    """Apply the items one after another, `place` being the axis of the result that comes next."""
    _check_arrays(items)
    place = 0
    for item in items:
        if item is None:
            array = view_of("unsqueeze", array, place, shape=(*array.shape[:place], 1, *array.shape[place:]))
            place += 1
        elif isinstance(item, slice):
            array = _sliced(array, place, item)
            place += 1
        elif _is_array(item):
            array = _gathered(array, place, item)
            place += item.ndim
        else:
            array = _selected(array, place, item)
    return array


def _check_arrays(items: list[Any]) -> None:
    """One array of indices is enough; a number beside it must be its neighbour, or NumPy would move its axis in front."""
    arrays = [place for place, item in enumerate(items) if _is_array(item)]
    if len(arrays) > 1:
        raise refused("an index holds several arrays", "index one axis at a time")
    if not arrays:
        return
    numbers = [place for place, item in enumerate(items) if item is not None and not isinstance(item, slice)]
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise refused("an index has an array and a number that are not side by side", "index one axis at a time")


def _selected(array: Any, place: int, item: Any) -> Any:
    try:
        index = item.__index__()
    except (AttributeError, TypeError):
        raise refused(f"an index of type {type(item).__name__} cannot be traced", wrong_arguments=True) from None
    extent = array.shape[place]
    if isinstance(item, bool | np.bool_):
        raise refused("True or False as an index cannot be traced", "use np.expand_dims")
    if not -extent <= index < extent:
        raise refused(f"index {index} is out of bounds for axis {place} with {extent} elements", wrong_arguments=True)
    return view_of("select", array, place, index % extent, shape=(*array.shape[:place], *array.shape[place + 1 :]))


def _sliced(array: Any, place: int, item: slice) -> Any:
    extent = array.shape[place]
    start, stop, step = item.indices(extent)
    length = len(range(start, stop, step))
    if step < 0:
        first = start + (length - 1) * step
        forwards = (
            _sliced(array, place, slice(first, start + 1, -step)) if length else _sliced(array, place, slice(0, 0))
        )
        made = array.record.op("aten::flip", forwards, (place,), dtype=array.dtype, shape=forwards.shape)
        array.record.note_copied_view()
        return made
    if (start, step, length) == (0, 1, extent):
        return view_of("slice", array, place, 0, extent, 1, shape=array.shape) if item != slice(None) else array
    shape = (*array.shape[:place], length, *array.shape[place + 1 :])
    return view_of("slice", array, place, start, max(start, stop), step, shape=shape)


def _gathered(array: Any, place: int, item: Any) -> Any:
    indices = as_traced(array.record, item)
    if indices.dtype == bool:
        raise refused("a mask as an index has a result whose shape depends on data", "use np.where(mask, x, other)")
    if indices.dtype.kind not in "iu":
        raise refused(f"indices must be integers, not {indices.dtype}", wrong_arguments=True)
    wanted = [None] * place + [indices]
    shape = (*array.shape[:place], *indices.shape, *array.shape[place + 1 :])
    return array.record.op("aten::index", array, wanted, dtype=array.dtype, shape=shape)

"""Versions vanish here: any version of a message to the one its handler knows, and back, by field name.

A handler sees one type per message: kio's newest, or a union type of `wire/unions` where a name moved or split.
A field the other side does not have gets its default, and so does a null where that side knows none; a field only this
side has is left behind.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from chronik.wire.reader import default_of, shape_of


def convert(message: Any, target: type) -> Any:
    """The same message as a `target`."""
    source: type = type(message)
    return message if source is target else converter(source, target)(message)


@cache
def converter(source: type, target: type) -> Callable[[Any], Any]:
    """How to make a `target` of a `source`, worked out once."""
    if source is target:
        return lambda message: message
    source_hints, target_hints = typing.get_type_hints(source), typing.get_type_hints(target)
    available = {field.name for field in dataclasses.fields(source)}
    copied: list[str] = []
    nested: list[tuple[str, Callable[[Any], Any]]] = []
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(target):
        hint = target_hints[field.name]
        if field.name not in available:
            defaults[field.name] = default_of(field, hint)
            continue
        change = _value_converter(source_hints[field.name], hint, default_of(field, hint))
        if change is None:
            copied.append(field.name)
        else:
            nested.append((field.name, change))

    def make(message: Any) -> Any:
        values = dict(defaults)
        for name in copied:
            values[name] = getattr(message, name)
        for name, change in nested:
            values[name] = change(getattr(message, name))
        return target(**values)

    return make


def _value_converter(source_hint: Any, target_hint: Any, default: Any) -> Callable[[Any], Any] | None:
    """For a nested message, an array of them, or a null that must go; None when the value can be taken as it is."""
    _, _, source_nested, source_nullable = shape_of(source_hint)
    _, is_array, target_nested, target_nullable = shape_of(target_hint)
    null = None if target_nullable else default
    if source_nested is None or target_nested is None or source_nested is target_nested:
        if source_nullable and null is not None:
            return lambda value: null if value is None else value
        return None
    change = converter(source_nested, target_nested)
    if is_array:
        return lambda values: null if values is None else tuple(map(change, values))
    return lambda value: null if value is None else change(value)

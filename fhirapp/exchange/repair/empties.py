"""What says nothing is left out: FHIR JSON has no empty strings, lists or objects, and no null.

Source: FHIR R4 json §2.6.2; null stays where it keeps the place of a primitive's extension.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.repair.log import SPACES, Log


def drop_empty(log: Log, resource: dict[str, Any]) -> None:
    """Leave out what is empty, or becomes so, at any depth."""
    _object(log, resource, "")


def _object(log: Log, holder: dict[str, Any], path: str) -> None:
    for name in list(holder):
        if name in holder:
            _member(log, holder, name, f"{path}{name}")


def _member(log: Log, holder: dict[str, Any], name: str, path: str) -> None:
    value = holder[name]
    if type(value) is dict:
        _object(log, value, f"{path}.")
    elif type(value) is list:
        _list(log, holder, name, path)
    if name in holder and _is_empty(holder[name]):
        log.did(path, "empty", holder.pop(name), None)


def _list(log: Log, holder: dict[str, Any], name: str, path: str) -> None:
    """Clean the items of a list, and take out those that are empty, with what stands beside them.

    A primitive's list and that of its extensions, `given` and `_given`, lose the same places.
    """
    values = holder[name]
    for place, item in enumerate(values):
        if type(item) is dict:
            _object(log, item, f"{path}[{place}].")
    other = name[1:] if name.startswith("_") else f"_{name}"
    beside = holder.get(other)
    beside = beside if type(beside) is list else []
    for place in range(len(values) - 1, -1, -1):
        aligned = beside[place] if place < len(beside) else None
        if not _is_empty(values[place]):
            continue
        if _is_empty(aligned):
            log.did(f"{path}[{place}]", "empty", values.pop(place), None)
            if place < len(beside):
                del beside[place]
        elif values[place] is not None:
            log.did(f"{path}[{place}]", "empty", values[place], None)
            values[place] = None
    if name.startswith("_") and not any(values):
        values.clear()


def _is_empty(value: Any) -> bool:
    if type(value) is str:
        return not value.strip(SPACES)
    return value is None or value == {} or value == []

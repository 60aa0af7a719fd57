"""Whether a value that came from JSON has the type of an annotation, also inside lists and dicts.

Only what JSON has is checked: an annotation that says something else allows everything. Decided
once for each annotation, because every call of a task is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

# Where inside of a value something is wrong, and what. Without the value: it may be a secret.
Misfit: TypeAlias = "tuple[str, str]"
Check: TypeAlias = "Callable[[Any], Misfit | None]"
_SCALARS = (str, int, float, bool, NoneType)


def check_of(annotation: Any) -> Check | None:
    """None: it allows everything."""
    if annotation is None:
        return _of_class(NoneType)
    if isinstance(annotation, NewType):
        return check_of(annotation.__supertype__)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return check_of(parts[0])
    if origin is Literal:
        return _of_literal(parts)
    if origin in (Union, UnionType):
        return _of_union(annotation, [check_of(part) for part in parts])
    if is_typeddict(annotation):
        return _of_typed_dict(annotation)
    kind = origin or annotation
    if kind in _SCALARS:
        return _of_class(kind)
    if kind in (list, Sequence):
        return _of_list(kind, check_of(parts[0]) if parts else None)
    if kind in (dict, Mapping):
        return _of_dict(check_of(parts[1]) if parts else None)
    return None


def _of_class(kind: type) -> Check:
    accepted = (int, float) if kind is float else (kind,)

    def check(value: Any) -> Misfit | None:
        if type(value) is kind:
            return None
        fits = isinstance(value, accepted) and not isinstance(value, bool)
        return None if fits else _misfit(kind, value)

    return check


def _of_list(kind: Any, item: Check | None) -> Check:
    def check(value: Any) -> Misfit | None:
        if not isinstance(value, list):
            # A str is a sequence of str, too.
            is_text = kind is Sequence and isinstance(value, str)
            return None if is_text else _misfit(list, value)
        return None if item is None else _first(enumerate(value), item)

    return check


def _of_dict(item: Check | None) -> Check:
    def check(value: Any) -> Misfit | None:
        if not isinstance(value, dict):
            return _misfit(dict, value)
        return None if item is None else _first(value.items(), item)

    return check


def _of_typed_dict(annotation: Any) -> Check:
    """Not which keys are missing: with annotations that are strings, it does not know."""
    try:
        hints = get_type_hints(annotation)
    except Exception:  # noqa: BLE001 - whatever an annotation raises, it is not known here
        return _of_dict(None)
    parts = {name: part for name, hint in hints.items() if (part := check_of(hint)) is not None}

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, dict):
            return _misfit(dict, value)
        found = (_first([(name, value[name])], parts[name]) for name in parts if name in value)
        return next(filter(None, found), None)

    return check


def _of_literal(values: tuple[Any, ...]) -> Check:
    expected = f"one of {', '.join(map(repr, values))}"

    def check(value: Any) -> Misfit | None:
        fits = any(value == each and type(value) is type(each) for each in values)
        return None if fits else ("", f"must be {expected}")

    return check


def _of_union(annotation: Any, checks: Sequence[Check | None]) -> Check | None:
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None
    text = str(annotation).replace("typing.", "")

    def check(value: Any) -> Misfit | None:
        found = [misfit for each in known if (misfit := each(value)) is not None]
        if len(found) < len(known):
            return None
        # What is wrong inside of a part says more.
        deeper = (misfit for misfit in found if misfit[0])
        return next(deeper, ("", f"must be {text}, not {type(value).__name__}"))

    return check


def _first(items: Iterable[tuple[Any, Any]], check: Check) -> Misfit | None:
    for place, item in items:
        if (misfit := check(item)) is not None:
            return f"[{place!r}]{misfit[0]}", misfit[1]
    return None


def _misfit(kind: type, value: Any) -> Misfit:
    expected = "None" if kind is NoneType else kind.__name__
    return "", f"must be {expected}, not {type(value).__name__}"

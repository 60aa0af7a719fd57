"""The reference of Python: every public name, with its docstring. mkdocstrings writes it; here is
which names are public, and whether all of them have something to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import griffe

from tools.site.links import documents

# Modules that programs import from, and the names they take there. None: all of `__all__`.
PUBLIC: dict[str, tuple[str, ...] | None] = {
    "milepost": None,
    "milepost.testing": None,
    "milepost.contrib.alembic": ("include_name", "include_object", "leave_alone"),
    "milepost.contrib.django": None,
    "milepost.contrib.django.testing": ("MilepostTestCase", "appended", "empty"),
    "milepost.processors": ("Processor",),
    "milepost.pipeline": ("MilepostSource", "history", "spark_session"),
    "milepost.pipeline.pipeline": ("Pipeline",),
    "milepost.queue": ("Worker",),
    "milepost.checkpoints": ("CheckpointKey", "CheckpointStore"),
}
ERRORS = "milepost.errors"
TITLES = {
    "milepost": "milepost",
    "milepost.processors": "What `mp.processor` returns",
    "milepost.pipeline": "milepost.pipeline",
    "milepost.pipeline.pipeline": "What `mp.pipeline` returns",
    "milepost.queue": "What `mp.worker` returns",
}
IMPORT = re.compile(r"^\s*from (milepost[\w.]*) import (\([^)]*\)|[^\n#]+)", re.MULTILINE)


def page() -> str:
    parts = ["# Python", "Everything that programs import. Names that are not here may change."]
    for module, names in public_names().items():
        parts.append(f"## {TITLES.get(module, module)}")
        parts.extend(f"::: {module}.{name}" for name in names)
    parts += [f"## {ERRORS}", *(f"::: {ERRORS}.{name}" for name in _errors())]
    return "\n\n".join(parts)


def problems() -> Iterator[str]:
    for module, names in public_names().items():
        for name in names:
            yield from undocumented(f"{module}.{name}", _package()[f"{module}.{name}"[9:]])
    for name in _errors():
        yield from undocumented(f"{ERRORS}.{name}", _package()[f"errors.{name}"])
    yield from _not_shown()


def public_names() -> dict[str, list[str]]:
    """By module, as far as there are any."""
    found = {module: _names(module, names) for module, names in PUBLIC.items()}
    return {module: names for module, names in found.items() if names}


@cache
def _package() -> griffe.Module:
    package = griffe.load("milepost", search_paths=["src"], resolve_aliases=True)
    if not isinstance(package, griffe.Module):
        raise TypeError(f"milepost is a {type(package)}")
    return package


def _names(module: str, names: Iterable[str] | None) -> list[str]:
    if names is not None:
        return list(names)
    path = module.removeprefix("milepost").lstrip(".")
    try:
        found = _package()[path] if path else _package()
    except KeyError:
        return []
    return [str(name) for name in found.exports or () if not str(name).startswith("_")]


def _errors() -> list[str]:
    members = _package()["errors"].members.values()
    ours = [member for member in members if not member.is_alias]
    return [m.name for m in ours if m.is_class and not m.name.startswith("_")]


def undocumented(name: str, found: griffe.Object | griffe.Alias) -> Iterator[str]:
    if found.is_attribute:
        return  # a constant; its value says what it is
    if not found.has_docstring:
        yield f"{name} is public and has no docstring"
    if found.is_class:
        for member in found.all_members.values():
            if _is_public_method(member) and not member.has_docstring:
                yield f"{name}.{member.name} is public and has no docstring"


def _is_public_method(member: griffe.Object | griffe.Alias) -> bool:
    is_ours = member.canonical_path.startswith("milepost.")
    is_called = member.is_function or "property" in member.labels
    return is_ours and is_called and not member.name.startswith("_")


def _not_shown() -> Iterator[str]:
    """What documents import must be in the reference."""
    shown = {f"{module}.{name}" for module, names in public_names().items() for name in names}
    shown |= {f"{ERRORS}.{name}" for name in _errors()}
    for document in documents():
        for module, names in IMPORT.findall(document.read_text()):
            for name in re.findall(r"\w+", names):
                if f"{module}.{name}" not in shown:
                    yield (
                        f"{document.name} imports {module}.{name}, which is not in the reference: "
                        "add it to PUBLIC in tools/site/python_reference.py"
                    )

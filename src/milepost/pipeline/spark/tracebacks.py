"""What Python code raised, and the user's line of code that did it. Pure.

What is raised in a task reaches the driver only as the text of a traceback.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = "Traceback (most recent call last):"
_CHAINED = re.compile(
    r"\n\n(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):\n\n"
)
_FRAME = re.compile(r'^\s+File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)$')
_RAISED = re.compile(r"^(?P<module>(?:[\w<>]+\.)*)(?P<name>\w+)(?:: (?P<message>.*))?$", re.DOTALL)
# Where the code of libraries is: Spark's, ours, and Python's own.
_SPARK_CODE = re.compile(r"(^|/)(pyspark|py4j)[^/]*(/|\.zip/)")
_OWN_CODE = str(Path(__file__).parents[2])
_PYTHONS_CODE = re.compile(r"/lib/python3[^/]*/(?!site-packages/|dist-packages/)|^<frozen ")
_INSTALLED = re.compile(r"/(site|dist)-packages/")


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of code in a traceback."""

    file: str
    line: int
    function: str
    code: str

    @property
    def is_users(self) -> bool:
        is_librarys = _SPARK_CODE.search(self.file) or _PYTHONS_CODE.search(self.file)
        return not is_librarys and not self.file.startswith(_OWN_CODE)

    def __str__(self) -> str:
        code = f": {self.code[:100]}" if self.code else ""
        return f"{Path(self.file).name}, line {self.line}, in {self.function}{code}"


@dataclass(frozen=True, slots=True)
class Raised:
    """What Python code raised in a task."""

    module: str  # with a dot at its end, or empty
    name: str
    message: str  # all lines, with what Spark has added
    place: str | None

    @property
    def class_name(self) -> str:
        return f"{self.module}{self.name}"

    @property
    def first_line(self) -> str:
        return self.message.partition("\n")[0]


def raised_in_task(text: str) -> Raised | None:
    """From the text of a traceback, if there is one: of the last exception, if there is a chain."""
    found: Raised | None = None
    for frames, said in _tracebacks(text):
        if (matched := _RAISED.match(said)) is not None:
            place = _users(frames) or (None if found is None else found.place)
            found = Raised(matched["module"], matched["name"], matched["message"] or "", place)
    return found


def users_place(error: BaseException) -> str | None:
    """The user's line of code in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return _users(Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames)


def was_raised_by_spark(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _SPARK_CODE.search(frames[-1].filename) is not None


def _tracebacks(text: str) -> Iterator[tuple[list[Frame], str]]:
    """The frames of each traceback of a chain, and what follows them: the class, and what it says,
    which may quote a traceback."""
    _, _, chain = text.partition(_HEADER)
    for part in _CHAINED.split(chain):
        frames: list[Frame] = []
        lines = part.removeprefix(_HEADER).lstrip("\n").splitlines()
        for number, line in enumerate(lines):
            if line and not line[0].isspace():
                yield frames, "\n".join(lines[number:]).strip()
                break
            _read(line, frames)


def _read(line: str, frames: list[Frame]) -> None:
    if (matched := _FRAME.match(line)) is not None:
        frames.append(Frame(matched["file"], int(matched["line"]), matched["function"], ""))
    elif frames and not frames[-1].code and not _is_marks(line):
        last = frames.pop()
        frames.append(Frame(last.file, last.line, last.function, line.strip()))


def _is_marks(line: str) -> bool:
    """What Python writes below the code: ^^^^."""
    return not line.strip(" ^~")


def _users(frames: Iterable[Frame]) -> str | None:
    """The last one of the user's code. That of installed packages only if there is no other."""
    found = [frame for frame in frames if frame.is_users]
    own = [frame for frame in found if not _INSTALLED.search(frame.file)]
    return str((own or found)[-1]) if found else None

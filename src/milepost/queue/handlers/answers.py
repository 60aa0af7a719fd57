"""What a batching handler answers for its jobs, and how each of them ends then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidResult
from milepost.queue.outcome import Ending, Kind, ending_of_return

if TYPE_CHECKING:
    from milepost.records import TakenJob


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer for a job that failed: `{job: Failure(error)}`. It is retried, or dead, as if its
    handler had raised the error."""

    error: BaseException | str

    @property
    def raised(self) -> BaseException:
        """The exception by which the job fails."""
        return self.error if isinstance(self.error, BaseException) else JobFailure(self.error)


class JobFailure(Exception):
    """What a `Failure` with a text stands for."""


def endings_of(
    jobs: Sequence[TakenJob],
    answer: object,
    ending_of_error: Callable[[TakenJob, BaseException], Ending],
) -> list[Ending]:
    """None: all are done. A mapping names the jobs for which there is more to say."""
    if answer is None:
        return [Ending(job, Kind.COMPLETE) for job in jobs]
    answers = _checked(jobs, answer)
    return [_ending(job, answers.get(job), ending_of_error) for job in jobs]


def _ending(
    job: TakenJob, answer: object, ending_of_error: Callable[[TakenJob, BaseException], Ending]
) -> Ending:
    if isinstance(answer, Failure):
        return ending_of_error(job, answer.raised)
    try:
        return ending_of_return(job, answer)
    except InvalidResult as error:
        return ending_of_error(job, error)


def _checked(jobs: Sequence[TakenJob], answer: object) -> Mapping[Any, Any]:
    if not isinstance(answer, Mapping):
        raise TypeError(
            f"A batching handler returned {type(answer).__name__}: expected None, if all jobs are "
            "done, or a mapping from jobs to answers: {job: Failure(error)}."
        )
    given = set(jobs)
    if strange := [key for key in answer if key not in given]:
        raise TypeError(
            f"A batching handler answered for {strange[0]!r}, which is not one of the jobs that it "
            "was given. The keys of its answer are the jobs themselves."
        )
    return answer

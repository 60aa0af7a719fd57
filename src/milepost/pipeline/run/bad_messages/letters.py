"""Retry dead letters of a pipeline: the function is given the message of one letter alone, and what
it gives is merged in the transaction that removes the letter.

The message comes from the letter: the log may not have it any more.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import describe
from milepost.handlers import storable
from milepost.pipeline.frames import Letter, letter_frame
from milepost.pipeline.run.bad_messages.data_failures import cause_of, is_of_data
from milepost.pipeline.write import LetterGone

if TYPE_CHECKING:
    from milepost.pipeline.run.range_loop import RangeLoop

log = logging.getLogger("milepost.pipelines")


def retry_letters(loop: RangeLoop, turn: int) -> None:
    """Those that operators asked for, oldest first, with the staging of a turn that is free."""
    writer = loop.writer
    found = db.fetch_records(
        writer.conn, writer.schema, "pipeline_letters", Letter, **writer.key.parameters()
    )
    for letter in found:
        if loop.is_stopped():
            return
        loop.before_merge()  # a pause holds retries, too
        with suppress(LetterGone):
            _retry(loop, letter, turn)


def _retry(loop: RangeLoop, letter: Letter, turn: int) -> None:
    definition, name = loop.setup.definition, loop.setup.options.name
    try:
        messages = letter_frame(loop.setup.spark, letter, definition.options.wanted)
        stage = loop.writer.staging_of(definition.function(messages), 1, turn)
        written = loop.writer.merge_letter(letter.letter, letter.at, stage())
    except Exception as error:
        if not is_of_data(error, definition.code):
            raise
        _failed_again(loop, letter, error)
        return
    loop.status.batch(written)
    log.info("pipeline=%s dead_letter=%s position=%s retried", name, letter.letter, letter.at)


def _failed_again(loop: RangeLoop, letter: Letter, error: Exception) -> None:
    writer, cause = loop.writer, storable(cause_of(error))
    db.run(
        writer.conn,
        writer.schema,
        "dead_letter_failed_again",
        id=letter.letter,
        error=cause,
        traceback=storable(describe(error)),
    )
    log.warning(
        "pipeline=%s dead_letter=%s position=%s retry failed: %s",
        loop.setup.options.name, letter.letter, letter.at, cause,
    )  # fmt: skip

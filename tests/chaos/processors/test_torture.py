"""Every effect exactly once, whoever is killed when; and the same harness finds what is doubled
as soon as the checkpoint is stored without comparing.

MILEPOST_TORTURE_SECONDS asks for more than the 20 s of the suite, MILEPOST_TORTURE_SEED for the
random choices of an earlier run (not for its timing).
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.sql import LogOrder
from tests.chaos.processors.torture import Result, Torture

SECONDS = float(os.environ.get("MILEPOST_TORTURE_SECONDS", "20"))
SABOTAGED_SECONDS = 2.0
ENOUGH_DOUBLED = 20  # of random amounts, which then do not make up for each other
LONGEST_GAP_SECONDS = 15.0

STORE_WITHOUT_COMPARING = """
create or replace function milepost.store_checkpoint(
  processor text,
  version integer,
  segment integer,
  expected milepost.position,
  new milepost.position,
  epoch bigint default 0,
  owner text default null
) returns integer
language plpgsql volatile as $$
begin
  insert into milepost.checkpoints (processor, version, segment, transaction_id, "position", owner)
  values (processor, version, segment, (new).transaction_id, (new).position, owner)
  on conflict on constraint checkpoints_pkey do update
  set transaction_id = excluded.transaction_id, "position" = excluded."position";
  return 1;
end;
$$
"""


def torture(url: str, directory: Path, seconds: float, doubled: int = 0) -> Result:
    seed = int(os.environ.get("MILEPOST_TORTURE_SEED", random.SystemRandom().getrandbits(32)))
    sys.stdout.write(f"MILEPOST_TORTURE_SEED={seed}\n")  # before it can fail
    result = Torture(url, directory, seconds, seed, doubled).run()
    sys.stdout.write(f"{result}\n")
    return result


@pytest.mark.timeout(SECONDS * 2 + 240)
def test_every_effect_happens_once_though_instances_are_killed(
    url: str, order: LogOrder, tmp_path: Path
) -> None:
    result = torture(url, tmp_path, SECONDS)
    assert result.outcome.is_clean, result
    assert result.outcome.messages > 0, result
    assert result.kills > 0, result
    assert result.longest_gap_seconds < LONGEST_GAP_SECONDS, result


@pytest.mark.parametrize("order", ["append"])
def test_storing_without_comparing_doubles_effects(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    conn.execute(STORE_WITHOUT_COMPARING)
    result = torture(url, tmp_path, SABOTAGED_SECONDS, ENOUGH_DOUBLED)
    assert result.outcome.doubled > 0, result
    assert result.outcome.wrong_balances > 0, result

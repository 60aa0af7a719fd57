"""What functions in SQL are given without meaning is refused with our error: what, its value, and
what is expected."""

from __future__ import annotations

import psycopg
import pytest

from milepost.db import Connection, translate
from milepost.errors import InvalidArgument
from tests.integration.queue.jobs import statuses

REFUSED = {
    "put('', '1')": "channel is '': expected a name of 1 to 255 characters",
    "put(null, '1')": "channel is null",
    "put(repeat('x', 256), '1')": "channel is 'xxx",
    "put('c', null::json)": "content is null",
    "put('c', '1', priority => 100000)": "priority is 100000: expected -32768 to 32767",
    "put('c', '1', priority => null)": "priority is null",
    "put('c', '1', max_attempts => 0)": "max_attempts is 0",
    "put('c', '1', keep_for => '0')": "keep_for is 00:00:00: expected more than 0",
    "put('c', '1', run_at => 'infinity')": "run_at is infinity",
    "put('c', '1', unique_key => '')": "unique_key is ''",
    "put('c', '1', unique_key => 'k', unique_for => '-1 s')": "unique_for is -00:00:01",
    "put('c', '1', unique_for => '1 s')": "need a unique_key",
    "put('c', '1', on_dead => 'hope')": "on_dead is 'hope': expected wait, cancel or run",
    "put_many(array['a', 'b'], array['1'])": "channels has 2, contents has 1",
    "put_many(null::text[], array['1'])": "channels has 0, contents has 1",
    "put_many(array['a'], array['1'], unique_keys => '{k,l}')": "unique_keys has 2",
    "put_many(array['a', ''], array['1', '2'])": "channel is ''",
    "put_many(array['a'], array[null])": "content is null",
    "put_many(array['a'], array['1'], priorities => '{100000}')": "priority is 100000",
    "put_many(array['a'], array['1'], max_attempts => '{0}')": "max_attempts is 0",
    "put_many(array['a'], array['1'], run_ats => '{infinity}')": "run_at is infinity",
    "put_many(array['a'], array['1'], keep_for => '{-1 s}')": "keep_for is -00:00:01",
    "put_many(array['a'], array['1'], afters => '{x}')": "an element of afters is x",
    "take(-1)": "max_count is -1: expected a whole number from 0 on",
    "take(null)": "max_count is null",
    "take(1, lock_for => '-1 s')": "lock_for is -00:00:01",
    "take(1, pattern => '')": "pattern is ''",
    "take(1, max_channels => 0)": "max_channels is 0",
    "complete('{1,2}', '{1}')": "ids has 2, attempts has 1",
    "complete('{1}', null)": "ids has 1, attempts has 0",
    "complete('{1}', '{1}', tokens => '{1,2}')": "tokens has 2",
    "fail('{1}', '{1}', errors => '{a,b}')": "errors has 2",
    "defer('{1}', '{1}', delays => '{1 s,2 s}')": "delays has 2",
    "heartbeat('{1,2}', '{1}', '30 s')": "ids has 2, attempts has 1",
    "heartbeat('{1}', '{1}', '0')": "lock_for is 00:00:00",
    "give_back('{1}', '{1,2}')": "ids has 1, attempts has 2",
    "mark_begun('{1}', '{1,2}')": "ids has 1, attempts has 2",
    "cancel_running('{1}', '{1,2}')": "ids has 1, attempts has 2",
    "set_channel('')": "name is ''",
    "set_channel('a*b')": "name is 'a\\*b': expected 1 to 255 characters, and a star at the end",
    "set_channel('c', max_concurrency => 0)": "max_concurrency is 0",
    "set_channel('c', max_concurrency_total => 1)": "max_concurrency_total is 1",
    "set_channel('c', release_interval => '0')": "release_interval is 00:00:00",
    "set_channel('c', max_size => 0)": "max_size is 0",
    "set_channel('c', paused => null)": "paused is null",
    "set_channel('c', rate_count => 1)": "rate_count is 1",
    "set_channel('c', rate_count => 1, rate_period => '0')": "rate_period is 00:00:00",
    "set_channel('c', rate_burst => 1)": "rate_burst is 1",
    "pause_channel(null)": "name is null",
    "set_upkeep('', ageing => '1 s')": "name is ''",
    "set_upkeep('c', ageing => '0')": "ageing is 00:00:00",
}


@pytest.mark.parametrize("call", REFUSED)
def test_arguments_without_meaning_are_refused_with_our_error(conn: Connection, call: str) -> None:
    with pytest.raises(psycopg.DatabaseError, match=REFUSED[call]) as refused:
        conn.execute(f"select milepost.{call}".encode())
    error = translate(refused.value, "milepost")
    assert type(error) is InvalidArgument
    assert "Nothing was changed." in str(error) or "Nothing was put." in str(error)
    assert not statuses(conn)

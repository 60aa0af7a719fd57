-- How many channels a take looks at is the taker's to say.

-- This has more arguments now.
drop function if exists {schema}.take(integer, interval, text, text, boolean);
-- A part of take_from() now.
drop function if exists {schema}.note_oldest_running(text[], bigint);

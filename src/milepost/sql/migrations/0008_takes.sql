-- Takes that a crash of the server may forget (docs/decisions/0008).

-- Together with the attempt, the fence: a random number of the take that holds the job. After a
-- forgotten take the next one counts up to the same attempt, but it has another token. Null where
-- the take was durable, and its attempt says enough.
alter table {schema}.jobs add column token bigint;

-- These have more arguments now.
drop function if exists {schema}.take(integer, interval, text, text);
drop function if exists {schema}.take_from(
  text[], integer, interval, smallint[], timestamptz[], bigint[]
);
drop function if exists {schema}.complete(bigint[], integer[], bytea[]);
drop function if exists {schema}.defer(bigint[], integer[], interval[], timestamptz[], bytea[]);
drop function if exists {schema}.fail(bigint[], integer[], interval[], text[], boolean[]);
drop function if exists {schema}.give_back(bigint[], integer[]);
drop function if exists {schema}.heartbeat(bigint[], integer[], interval, bytea[]);
drop function if exists {schema}.cancel_running(bigint[], integer[], text[]);
drop function if exists {schema}.verdicts(bigint[], integer[], bigint[], integer[]);
-- And this one's arguments have other names.
drop function if exists {schema}.channels_with_room(text, text, integer);

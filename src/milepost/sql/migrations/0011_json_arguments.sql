-- put, put_many, append and append_many take json, jsonb and text; bytea has functions of its own,
-- put_bytes and put_many_bytes (docs/decisions/0018).

-- Nothing is dropped: the release before this one calls put and put_many with bytea, and goes on
-- running while this one takes over. The release after this one drops
--   put(text, bytea, timestamptz, integer, integer, text, bytea, interval)
--   put_many(text[], bytea[], timestamptz[], integer[], integer[], text[], bytea[], interval[])

-- What an instance says about its share of the segments; null in the rows of the previous release.
--
-- at_most: how many segments it takes; null: as many as its fair share. Set while it leaves segments
-- to others because it gave them back with an error.
-- claim_seconds: how long its claims last. Operators claim for as long.
alter table {schema}.instances
  add column at_most integer,
  add column claim_seconds double precision;

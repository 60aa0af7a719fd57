"""What the tests take out, and what must then be seen."""

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

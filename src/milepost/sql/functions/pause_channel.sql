-- Pause a channel, or let it go on; the rest of its policy stays. See set_channel().
create or replace function {schema}.pause_channel(name text, paused boolean default true)
returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
  lock table {schema}.channels in exclusive mode;
  insert into {schema}.channels as c (name, is_paused)
  values (pause_channel.name, pause_channel.paused)
  on conflict (name) do update
  set is_paused = excluded.is_paused, updated_at = clock_timestamp();
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;

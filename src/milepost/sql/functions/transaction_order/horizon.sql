-- The last message below which nothing new can appear: the last of the transactions before the
-- oldest one that is still running, anywhere in the cluster.
create or replace function {schema}.horizon() returns {schema}.position
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.refuse_unsafe_read();
  perform {schema}.refuse_moved_once();
  perform {schema}.refuse_foreign_cluster();
  return {schema}.last_message(row(
    {schema}.transaction_base() + pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1,
    9223372036854775807
  )::{schema}.position);
end;
$$;

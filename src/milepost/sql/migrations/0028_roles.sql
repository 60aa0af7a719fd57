-- What a role may do with rows that are not its own (docs/decisions/0020).

-- Whose write from Spark it is; null: of the time before this column.
alter table {schema}.spark_writes add column role name;

-- Replaced by the function of that name, in the step that has the functions.
create function {schema}.is_pipeline(name text, version integer) returns boolean
language plpgsql stable as $$
begin
  return false;
end;
$$;

-- A role that runs pipelines changes what is theirs. One that runs or operates processors changes all
-- of it; it is known by its privilege to change their segments, which needs no look at a row.
alter table {schema}.checkpoints enable row level security;
create policy seen on {schema}.checkpoints for select using (true);
create policy changed on {schema}.checkpoints using (
  has_any_column_privilege('{schema}.segments'::regclass::oid, 'update')
  or {schema}.is_pipeline(processor, version)
);
alter table {schema}.dead_letters enable row level security;
create policy seen on {schema}.dead_letters for select using (true);
create policy changed on {schema}.dead_letters using (
  has_any_column_privilege('{schema}.segments'::regclass::oid, 'update')
  or {schema}.is_pipeline(processor, version)
);

-- pipeline: run, rebuild, roll back and drop pipelines. A pipeline creates its staging tables in
-- this schema. CREATE is a far-reaching privilege: a role that has it can also create functions
-- here that others call by mistake. Trust this role as you trust the owner. The owner of the
-- target's schema must grant:
--   grant usage, create on schema TARGET_SCHEMA to ROLE;
grant create on schema {schema} to {role};
grant select, insert, update, delete on {schema}.pipelines to {role};
grant select, insert, update (transaction_id, "position", epoch, owner, updated_at), delete
  on {schema}.checkpoints to {role};

-- pipeline: run, rebuild, roll back and drop pipelines. A pipeline makes its staging tables in this
-- schema. CREATE is much: whoever has it can also make functions here that others would call by
-- mistake. Trust this role as you trust the owner. Its target's schema is somebody else's to grant:
--   grant usage, create on schema TARGET_SCHEMA to ROLE;
grant create on schema {schema} to {role};
grant select, insert, update, delete on {schema}.pipelines to {role};
grant select, insert, update (transaction_id, "position", epoch, owner, updated_at), delete
  on {schema}.checkpoints to {role};

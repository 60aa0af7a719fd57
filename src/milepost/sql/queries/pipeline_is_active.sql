-- Locked, so that no swap happens between this check and the action that depends on it.
select is_active
from {schema}.pipelines
where name = %(pipeline)s and version = %(version)s
for update

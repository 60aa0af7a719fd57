-- Locked, so that no swap comes between the answer and what is done with it.
select is_active
from {schema}.pipelines
where name = %(pipeline)s and version = %(version)s
for update

select distinct format('%%I.%%I', target_schema, target)
from {schema}.pipelines
where target is not null
order by 1

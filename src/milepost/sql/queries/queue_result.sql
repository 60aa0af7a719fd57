select j.status::text, j.keep_for is not null, j.result, j.last_error
from {schema}.jobs as j
where j.id = %(id)s

-- Indexes of the log that are not complete: being created now, or left by an interruption.
select c.relname
from pg_index as i
join pg_class as c on c.oid = i.indexrelid
where i.indrelid = '{schema}.messages'::regclass and not i.indisvalid
order by c.relname

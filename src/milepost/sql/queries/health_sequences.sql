-- How much of what they can give was given. pg_sequences shows null for one that was never drawn
-- from and for one that this role may not see.
select
  s.sequencename::text as name,
  case
    when has_sequence_privilege(format('%%I.%%I', s.schemaname, s.sequencename), 'select, usage')
    then coalesce(s.last_value, 0)::float8 / s.max_value
  end as used,
  false as is_cluster
from pg_sequences as s
where s.schemaname = %(schema)s
union all
-- PostgreSQL stops writing shortly before 2^31 transaction ids are not frozen.
select 'the transaction ids of the cluster', max(age(d.datfrozenxid)) / 2147483648.0, true
from pg_database as d

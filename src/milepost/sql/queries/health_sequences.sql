-- How much of each sequence is used. pg_sequences shows null for a sequence that was never used and
-- for one that is hidden from this role.
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

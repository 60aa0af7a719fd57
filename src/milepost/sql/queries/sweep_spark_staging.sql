-- Only once it is large: TRUNCATE makes new files, and small batches would do so each time.
select case
  when pg_relation_size(to_regclass(format('{schema}.%%I', %(staging)s::text))) > %(most_bytes)s
    then {schema}.clean_staging(%(staging)s)
end

with removed as (
  delete from {schema}.schedules as s where s.name = %(name)s returning 1
)
select count(*) from removed

-- The tables of both pipelines compared with the log: the number of rows, how many differ, and the
-- sums.
with orders as materialized (
  select
    data ->> 'customer' as customer,
    (data ->> 'day')::date as day,
    (data ->> 'total')::bigint as total
  from {schema}.messages
),
days as (
  select
    count(*) as number,
    count(*) filter (
      where (written.orders, written.total) is distinct from (kept.orders, kept.total)
    ) as wrong,
    coalesce(sum(kept.total), 0)::bigint as total
  from (select day, count(*) as orders, sum(total)::bigint as total from orders group by day)
    as written
  full join {schema}.revenue_by_day as kept using (day)
),
customers as (
  select
    count(*) as number,
    count(*) filter (
      where (written.orders, written.total) is distinct from (kept.orders, kept.total)
    ) as wrong,
    coalesce(sum(kept.total), 0)::bigint as total
  from (
    select customer, count(*) as orders, sum(total)::bigint as total from orders group by customer
  ) as written
  full join {schema}.revenue_by_customer as kept using (customer)
)
select
  days.number,
  customers.number,
  days.wrong + customers.wrong,
  (select coalesce(sum(total), 0)::bigint from orders),
  days.total,
  customers.total
from days, customers

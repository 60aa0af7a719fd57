select
  count(*),
  count(*) filter (where written.total is distinct from balances.total),
  coalesce(sum(written.total), 0)::bigint,
  coalesce(sum(balances.total), 0)::bigint
from (
  select data ->> 'customer' as customer, sum((data ->> 'total')::bigint)::bigint as total
  from {schema}.messages
  group by 1
) as written
full join {schema}.balances as balances using (customer)

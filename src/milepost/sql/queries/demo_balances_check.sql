select
  count(*),
  count(*) filter (where written.amount is distinct from balances.amount),
  coalesce(sum(written.amount), 0)::bigint,
  coalesce(sum(balances.amount), 0)::bigint
from (
  select data ->> 'account' as account, sum((data ->> 'amount')::bigint)::bigint as amount
  from {schema}.messages
  group by 1
) as written
full join {schema}.balances as balances using (account)

insert into {schema}.balances (account, amount)
values (%(account)s, %(amount)s)
on conflict (account) do update
set amount = balances.amount + excluded.amount

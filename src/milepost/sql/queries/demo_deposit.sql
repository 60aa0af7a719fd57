insert into {schema}.balances (customer, total)
values (%(customer)s, %(total)s)
on conflict (customer) do update
set total = balances.total + excluded.total

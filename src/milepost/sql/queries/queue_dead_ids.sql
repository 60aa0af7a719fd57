select j.id from {schema}.jobs as j
where j.status = 'dead' and (%(channel)s::text is null or j.channel = %(channel)s)
order by j.id

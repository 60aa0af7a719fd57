-- How long the claims of the living instances last, if there are any.
select max(claim_seconds) from {schema}.instances
where processor = %(processor)s and version = %(version)s and alive_until > clock_timestamp()

-- For this transaction only.
select set_config('TimeZone', %(name)s, true)

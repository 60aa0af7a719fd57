-- Which part of the process uses the connection from now on.
select set_config('application_name', %(name)s, false)

-- What a worker does from time to time: the jobs of workers that are gone wait again.
select {schema}.recover_expired()

-- Where new files are written; no row if nothing is archived.
select archive from {schema}.retention where archive is not null

-- Where files of this log are, or have been.
select location from {schema}.archive
union
select location from {schema}.archive_replaced
union
select archive from {schema}.retention where archive is not null
order by 1

-- Where the rows that were set aside are, for operators and for the drop of a version.
update {schema}.pipelines
set rejected = %(rejected)s
where name = %(pipeline)s and version = %(version)s and rejected is distinct from %(rejected)s

-- Expectations of pipelines.

-- How many rows of the output have satisfied an expectation, and how many have violated it. Updated
-- in the transaction of each batch, so that each row counts once, whatever is killed.
create table {schema}.pipeline_expectations (
  pipeline text not null,
  version integer not null,
  expectation text not null,
  passed bigint not null,
  violated bigint not null,
  constraint pipeline_expectations_pkey primary key (pipeline, version, expectation)
) with (fillfactor = 50);

-- The view of the rows that were set aside, in the schema of the target, or in this one if there is no
-- target. Each version has a table of its own, whose name ends in __vN.
alter table {schema}.pipelines add column rejected text;

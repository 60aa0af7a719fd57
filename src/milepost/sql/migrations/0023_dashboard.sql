-- What the dashboard shows and records.

-- One row for each action that succeeded, in its transaction where it has one. `who` is what the
-- dashboard knows of the operator. `arguments` are the fields of the form: names, ids and limits, no
-- content of a message or a job.
create table {schema}.audit (
  id bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  who text not null,
  action text not null,
  subject text not null,
  arguments jsonb not null,
  constraint audit_pkey primary key (id)
);

-- Where the pages of the Spark application are that runs it, for a link.
alter table {schema}.pipelines add column spark_page text;

-- Writes from Spark jobs, with format("milepost"): one row for each streaming query, which stays, and
-- one for each batch write, while it runs.
--
-- `query` is the id of the streaming query, which Spark keeps in its checkpoint directory: a new
-- directory has a new id. A batch write has an id of its own. `batch` is the last batch that was
-- written, with so many rows; null: none yet. It is the fence against a batch that Spark repeats.
-- Tasks copy their rows into the table `staging`. It is dropped once nobody has used it for a while.
create table {schema}.spark_writes (
  query uuid not null,
  is_stream boolean not null,
  staging text not null,
  batch bigint,
  rows bigint,
  used_at timestamptz not null default clock_timestamp(),
  constraint spark_writes_pkey primary key (query),
  constraint spark_writes_rows check ((batch is null) = (rows is null))
);

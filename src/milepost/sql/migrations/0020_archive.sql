-- The archive: old messages in Parquet files. A range below the horizon is final, so a file is final.

-- Where old messages go before they are removed, if anywhere; never with credentials.
-- `archive_after`: messages that are older are archived, also while they are kept here; null: what
-- is not kept is archived. Without `keep` and `keep_messages`, nothing is removed. `removal_at`: when a
-- process last began to remove as its duty; others leave it to that one for a while.
alter table {schema}.retention
  add column archive text,
  add column archive_after interval,
  add column removal_at timestamptz,
  drop constraint retention_keeps,
  add constraint retention_keeps
    check (keep is not null or keep_messages is not null or archive is not null),
  add constraint retention_archive_after
    check (archive_after is null or (archive is not null and archive_after >= interval '0'));

-- The manifest: which file has which range of the log, after one position, up to and including
-- another. The table is the truth; what else is in the directory does not count.
--
-- The ranges are one chain. Each begins where another ends (the foreign key), no two begin or end
-- at the same position, and one is the first. A range ends after it begins, so there is no circle.
-- So they are contiguous and never overlap. The foreign key is checked at commit: several files may
-- be replaced by one that has the same range.
create table {schema}.archive (
  after_transaction_id bigint not null,
  after_position bigint not null,
  last_transaction_id bigint not null,
  last_position bigint not null,
  location text not null,
  name text not null,
  messages bigint not null,
  bytes bigint not null,
  sha256 text not null,
  -- Null: the file has a time that is not in the years 1 to 9999, or no messages.
  recorded_from timestamptz,
  recorded_to timestamptz,
  -- Null: too many to list.
  topics text[],
  types text[],
  format_version integer not null,
  has_content boolean not null default false,
  epoch bigint not null,
  written_at timestamptz not null default clock_timestamp(),
  is_first boolean not null default false,
  previous_transaction_id bigint generated always as (
    case when not is_first then after_transaction_id end
  ) stored,
  previous_position bigint generated always as (
    case when not is_first then after_position end
  ) stored,
  constraint archive_pkey primary key (last_transaction_id, last_position),
  constraint archive_after_once unique (after_transaction_id, after_position),
  constraint archive_is_a_range check (
    (after_transaction_id, after_position) < (last_transaction_id, last_position)
  ),
  constraint archive_is_contiguous foreign key (previous_transaction_id, previous_position)
    references {schema}.archive (last_transaction_id, last_position)
    deferrable initially deferred,
  constraint archive_messages check (messages >= 0)
);

create unique index archive_first on {schema}.archive (is_first) where is_first;

-- Files that others have replaced in the manifest. They stay for a while, because readers may hold their
-- names, and are removed by a sweep.
create table {schema}.archive_replaced (
  name text not null,
  location text not null,
  replaced_at timestamptz not null default clock_timestamp(),
  constraint archive_replaced_pkey primary key (name)
);

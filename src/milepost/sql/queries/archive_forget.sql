-- Forget all files, but only if a gap follows them: then no reader gets past their end. Returns how many
-- there were. The archiver begins again after what was removed; its epoch goes on.
with forgotten as (
  delete from {schema}.archive
  where (
    select {schema}.archive_end()
      < row(log.removed_transaction_id, log.removed_position)::{schema}.position
    from {schema}.log
  )
  returning 1
)
select count(*) from forgotten

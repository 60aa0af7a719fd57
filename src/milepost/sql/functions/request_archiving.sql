-- Ask the archiver that works now to write all that is old enough, however little it is. Returns up to
-- which position; null without an archive.
create or replace function {schema}.request_archiving() returns {schema}.position
language plpgsql volatile as $$
declare
  wanted constant {schema}.position := {schema}.archive_limit();
begin
  update {schema}.retention
  set requested_transaction_id = (wanted).transaction_id, requested_position = (wanted).position
  where requested_position is null
    or (requested_transaction_id, requested_position) < ((wanted).transaction_id, (wanted).position);
  return wanted;
end;
$$;

-- Ask the archiver that works now to write all that is old enough, however little it is. Returns up to
-- which position; null without an archive.
create or replace function {schema}.request_archiving() returns {schema}.position
language plpgsql volatile as $$
declare
  wanted constant {schema}.position := {schema}.archive_limit();
begin
  update {schema}.retention
  set archive_requested = wanted
  where archive_requested is null or archive_requested < wanted;
  return wanted;
end;
$$;

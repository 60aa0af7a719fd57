-- The payload limit of the SQL functions: the setting milepost.max_payload_bytes, 1 MiB if unset.
create or replace function {schema}.refuse_oversized(data json, metadata json) returns void
language plpgsql stable as $$
declare
  max_bytes constant bigint := coalesce(
    nullif(current_setting('milepost.max_payload_bytes', true), ''), '1048576'
  )::bigint;
  bytes constant bigint := octet_length(data::text) + octet_length(metadata::text);
begin
  if bytes > max_bytes then
    raise exception 'data and metadata take % bytes, the limit is %', bytes, max_bytes
      using errcode = 'MP004',
      hint = 'Keep large content elsewhere and append a reference, or raise milepost.max_payload_bytes.';
  end if;
end;
$$;

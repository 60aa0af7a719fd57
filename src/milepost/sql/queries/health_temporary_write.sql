-- Write a temporary file as large sorts do: more rows than fit in this memory. It
-- needs no privilege, and no transaction id.
do $do$
begin
  perform set_config('work_mem', '64kB', true);
  perform count(*) from generate_series(1, 20000) as number;
end;
$do$

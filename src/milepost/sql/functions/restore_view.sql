-- Run what view_settings returned. The privilege on a column that the view no longer has is left
-- out.
create or replace function {schema}.restore_view(settings text[]) returns void
language plpgsql volatile as $$
declare
  statement text;
begin
  foreach statement in array settings loop
    begin
      execute statement;
    exception
      when undefined_column then
        null;
    end;
  end loop;
end;
$$;

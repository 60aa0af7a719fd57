-- Refuse a job that the queue cannot hold. The caller has found that something is wrong with one:
-- see put().
create or replace function {schema}.refuse_job(
  channel text, has_content boolean, run_at timestamptz, priority integer, max_attempts integer,
  unique_key text, keep_for interval, on_dead text, unique_for interval
) returns void
language plpgsql stable as $$
begin
  perform {schema}.refuse_argument(checked.name, checked.value, checked.expected)
  from (
    values
      (
        'channel', quote_literal(channel), char_length(channel) between 1 and 255,
        'a name of 1 to 255 characters'
      ),
      ('content', null, has_content, 'JSON, such as ''null''::json'),
      (
        'run_at', run_at::text,
        run_at is null or run_at between '0001-01-02 00:00+00' and '9999-12-30 00:00+00',
        '0001-01-02 to 9999-12-30'
      ),
      ('priority', priority::text, priority between -32768 and 32767, '-32768 to 32767'),
      ('max_attempts', max_attempts::text, max_attempts > 0, 'a whole number from 1 on'),
      (
        'unique_key', quote_literal(unique_key),
        unique_key is null or char_length(unique_key) between 1 and 1024, '1 to 1024 characters'
      ),
      ('keep_for', keep_for::text, keep_for is null or keep_for > interval '0', 'more than 0'),
      (
        'on_dead', quote_literal(on_dead),
        on_dead is null or on_dead in ('wait', 'cancel', 'run'), 'wait, cancel or run'
      ),
      ('unique_for', unique_for::text, unique_for is null or unique_for > interval '0', 'more than 0')
  ) as checked (name, value, is_right, expected)
  where checked.is_right is not true;
end;
$$;

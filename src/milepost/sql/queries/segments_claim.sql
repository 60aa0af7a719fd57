-- Not those that the instance leaves to others.
select id, mask, epoch, transaction_id, "position"
from {schema}.claim_segments(
  %(processor)s, %(version)s, %(owner)s, %(max_count)s, %(claim_seconds)s,
  case
    when cardinality(%(left_to_others)s::integer[]) > 0 then array(
      select s.id from {schema}.segments as s
      where s.processor = %(processor)s
        and s.version = %(version)s
        and s.id <> all(%(left_to_others)s::integer[])
    )
  end
)
order by id

-- What the archive has of a range: about how many messages (those of a file that is only partly in
-- the range are estimated by positions), after which position it begins, and where it ends; nulls
-- if it has nothing of it. The files are one chain.
select
  sum(
    case
      when (after_transaction_id, after_position) >= (%(after_transaction_id)s, %(after_position)s)
        and (last_transaction_id, last_position) <= (%(last_transaction_id)s, %(last_position)s)
        then messages
      else least(
        messages,
        1 + messages::double precision
        * abs(least(last_position, %(last_position)s) - greatest(after_position, %(after_position)s))
        / greatest(1, abs(last_position - after_position))
      )
    end
  )::bigint,
  (array_agg(after_transaction_id order by last_transaction_id, last_position))[1],
  (array_agg(after_position order by last_transaction_id, last_position))[1],
  (array_agg(last_transaction_id order by last_transaction_id desc, last_position desc))[1],
  (array_agg(last_position order by last_transaction_id desc, last_position desc))[1]
from {schema}.archive
where (last_transaction_id, last_position) > (%(after_transaction_id)s, %(after_position)s)
  and (after_transaction_id, after_position) < (%(last_transaction_id)s, %(last_position)s)

-- The claim that each segment had last, and whether an instance has it now.
select id, mask, epoch, coalesce(claimed_until > clock_timestamp(), false)
from {schema}.segments
where processor = %(processor)s and version = %(version)s

select horizon.transaction_id, horizon."position", {schema}.is_held(horizon)
from {schema}.horizon() as horizon

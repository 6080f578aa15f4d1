-- What is published of the rollouts of a pair.
-- Reads rollouts. One row per rollout, in the order of their numbers.
SELECT rollout_key AS key, rollout_id, outcome / 1e9 AS outcome FROM rollouts ORDER BY rollout;

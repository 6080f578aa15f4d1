-- Folds: within a unit, distinct action sequences are ranked by the smallest sha256(seed || rollout_id) among their rollouts.
-- Reads rollouts_in. Writes rollouts: one row per rollout, with its fold, its outcome in units of 1e-9, and numbers that stand for
-- the text order of units and of rollouts (as in "rollout:step"; from 0).
CREATE TEMP TABLE rollouts AS
SELECT (row_number() OVER (ORDER BY rollout_id || ':') - 1)::INTEGER AS rollout,
       dense_rank() OVER (ORDER BY unit_id)::INTEGER AS unit, rollout_key, rollout_id, unit_key, outcome, stratum,
       ((dense_rank() OVER (PARTITION BY unit_key ORDER BY digest) - 1) % getvariable('folds'))::TINYINT AS fold
FROM (
    SELECT *, min(sha256(getvariable('seed') || rollout_id)) OVER (PARTITION BY unit_key, sequence_key) AS digest
    FROM rollouts_in
);

-- Candidates: the decisions of each side in hash order, at most max_decisions_per_side of them.
-- Reads visits, sides, rollouts. Writes ranked: one row per decision; rank from 0; size = decisions kept in the cell.
CREATE TEMP TABLE ranked AS
SELECT row_number() OVER ()::INTEGER AS decision, * FROM (
    SELECT cell, rollout, step, rule, row_number() OVER in_order - 1 AS rank,
           least(count(*) OVER (PARTITION BY cell), getvariable('max_decisions_per_side')) AS size
    FROM (
        SELECT s.cell, v.rollout, v.step, v.rule, sha256(getvariable('seed') || r.rollout_id || ':' || v.step) AS digest
        FROM visits v
        JOIN sides s ON s.context = v.context AND s.action = v.action AND s.fold = v.fold
        JOIN rollouts r ON r.rollout = v.rollout
    )
    WINDOW in_order AS (PARTITION BY cell ORDER BY digest[1:12], digest[13:24], rollout, step)
    QUALIFY rank < getvariable('max_decisions_per_side')
);

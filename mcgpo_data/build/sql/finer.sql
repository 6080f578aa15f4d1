-- How each finer rule sees the candidates: the cell in which they lie there, if that rule compares it with any other.
-- Reads ranked, decisions, rollouts, cells, compared. Writes finer: one row per (candidate, rule but the last).
CREATE TEMP TABLE finer AS
WITH found AS (
    SELECT k.decision, d.rule, c.cell
    FROM ranked k
    JOIN rollouts r USING (rollout)
    JOIN decisions d ON d.rollout_key = r.rollout_key AND d.step = k.step AND d.rule < k.rule
    JOIN cells c ON c.context = xor(d.context, r.unit_key) AND c.action = d.action AND c.fold = r.fold
    WHERE d.rule < getvariable('num_rules') - 1 AND c.cell IN (SELECT one FROM compared)
    GROUP BY ALL -- a row may be given twice
)
SELECT k.decision, u.rule AS finer_rule, k.rollout, f.cell
FROM ranked k
JOIN (SELECT unnest(range(greatest(getvariable('num_rules') - 1, 1)))::SMALLINT AS rule) u ON true
LEFT JOIN found f ON f.decision = k.decision AND f.rule = u.rule;

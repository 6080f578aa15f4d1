-- What the candidates of coarser rules look like under each finer rule.
-- Reads ranked, decisions, rollouts. Writes finer: one row per (candidate, finer rule).
CREATE TEMP TABLE finer AS
SELECT c.decision, d.rule, xor(d.context, r.unit_key) AS context, d.action
FROM decisions d
JOIN rollouts r USING (rollout_key)
JOIN ranked c ON c.rollout = r.rollout AND c.step = d.step AND d.rule < c.rule
WHERE d.rule < (SELECT max(rule) FROM ranked);

-- Evidence to be left out of a comparison: rollouts that took both actions in the context.
-- Reads live, evidence_folds. Writes both_taken: one row per (context, a < b, f, g).
CREATE TEMP TABLE both_taken AS
SELECT v.context, v.action AS a, w.action AS b, e.f, e.g, count(*)::BIGINT AS n, sum(v.outcome)::BIGINT AS s,
       0::BIGINT AS x
FROM live v
JOIN live w ON w.context = v.context AND w.rollout = v.rollout AND v.action < w.action
JOIN evidence_folds e ON v.fold = e.e
WHERE v.outcome IS NOT NULL
GROUP BY v.context, v.action, w.action, e.f, e.g;

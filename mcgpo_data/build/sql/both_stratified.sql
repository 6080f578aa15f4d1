-- As both.sql, for scope = task: x as in evidence_stratified.sql.
-- Reads live, evidence_folds, strata. Writes both_taken: one row per (context, a < b, f, g).
CREATE TEMP TABLE both_taken AS
SELECT v.context, v.action AS a, w.action AS b, e.f, e.g, count(*)::BIGINT AS n, sum(v.outcome)::BIGINT AS s,
       sum(t.mean)::BIGINT AS x
FROM live v
JOIN live w ON w.context = v.context AND w.rollout = v.rollout AND v.action < w.action
JOIN evidence_folds e ON v.fold = e.e
JOIN strata t ON t.context = v.context AND t.stratum = v.stratum AND t.f = e.f AND t.g = e.g
WHERE v.outcome IS NOT NULL
GROUP BY v.context, v.action, w.action, e.f, e.g;

-- As evidence.sql, for scope = task: x is what the action's outcomes would sum to (units of 1e-13) if each equalled the mean
-- outcome of its own policy version in this context and these folds.
-- Reads live, evidence_folds, strata. Writes evidence: one row per (context, action, f, g).
CREATE TEMP TABLE evidence AS
SELECT v.context, v.action, e.f, e.g, count(*)::BIGINT AS n, sum(v.outcome)::BIGINT AS s, sum(t.mean)::BIGINT AS x
FROM live v
JOIN evidence_folds e ON v.fold = e.e
JOIN strata t ON t.context = v.context AND t.stratum = v.stratum AND t.f = e.f AND t.g = e.g
WHERE v.outcome IS NOT NULL
GROUP BY v.context, v.action, e.f, e.g;

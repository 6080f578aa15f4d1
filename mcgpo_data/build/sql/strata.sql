-- Mean outcome of each policy version in a context and evidence folds, in units of 1e-13, rounded half up (scope = task).
-- Reads live, evidence_folds. Writes strata: one row per (context, stratum, f, g).
CREATE TEMP TABLE strata AS
SELECT v.context, v.stratum, e.f, e.g, ((sum(v.outcome) * 20000 + count(*)) // (2 * count(*)))::BIGINT AS mean
FROM live v
JOIN evidence_folds e ON v.fold = e.e
WHERE v.outcome IS NOT NULL
GROUP BY v.context, v.stratum, e.f, e.g;

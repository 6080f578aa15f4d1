-- Evidence for an action when the candidates lie in folds f and g: the cells of all folds that evidence_folds allows.
-- Reads cells, evidence_folds(f, g, e). Writes evidence: one row per (context, action, f, g); x is unused here (see
-- evidence_stratified.sql).
CREATE TEMP TABLE evidence AS
SELECT c.context, c.action, e.f, e.g, sum(c.n)::BIGINT AS n, sum(c.s)::BIGINT AS s, 0::BIGINT AS x
FROM cells c
JOIN evidence_folds e ON c.fold = e.e
WHERE c.n > 0
GROUP BY c.context, c.action, e.f, e.g;

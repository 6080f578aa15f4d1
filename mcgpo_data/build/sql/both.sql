-- Evidence to be left out of a comparison: rollouts that took both actions in the context.
-- Reads visits, cells, evidence_folds. Writes both_taken: one row per (context, a < b, f, g).
CREATE TEMP TABLE both_taken AS
WITH repeated AS (
    SELECT context, rollout FROM visits
    SEMI JOIN cells USING (context)
    WHERE outcome IS NOT NULL
    GROUP BY context, rollout
    HAVING count(*) > 1
), taken AS (
    SELECT v.context, v.rollout, v.action, v.fold, v.outcome, v.stratum
    FROM visits v SEMI JOIN repeated USING (context, rollout)
)
SELECT v.context, v.action AS a, w.action AS b, e.f, e.g, count(*)::BIGINT AS n, sum(v.outcome)::BIGINT AS s,
       0::HUGEINT AS x
FROM taken v
JOIN taken w ON w.context = v.context AND w.rollout = v.rollout AND v.action < w.action
JOIN evidence_folds e ON v.fold = e.e
GROUP BY v.context, v.action, w.action, e.f, e.g;

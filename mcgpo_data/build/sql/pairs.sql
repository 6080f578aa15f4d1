-- Pairs with their weights: each pair of a class gets an equal share of the class weight.
-- Reads kept, ranked, directed, discounts, posterior. Writes pairs: one row per preference pair.
CREATE TEMP TABLE pairs AS
WITH weighed AS (
    SELECT k.rule, w.rollout AS chosen_rollout, w.step AS chosen_step, l.rollout AS rejected_rollout, l.step AS rejected_step,
           d.* EXCLUDE (class), count(*) OVER (PARTITION BY k.class) AS class_pairs,
           2.0 * chosen_n * rejected_n / (chosen_n + rejected_n) AS h, x.discount, q.probability
    FROM kept k
    JOIN ranked w ON w.decision = k.w
    JOIN ranked l ON l.decision = k.l
    JOIN directed d USING (class)
    JOIN discounts x ON x.rule = k.rule
    LEFT JOIN posterior q USING (chosen_s, chosen_n, rejected_s, rejected_n)
)
SELECT *,
    CASE getvariable('weight')
        WHEN 'uniform' THEN 1.0
        WHEN 'support' THEN discount * h / (h + getvariable('support_prior'))
        WHEN 'support_margin' THEN discount * delta * h / (h + getvariable('support_prior'))
        ELSE discount * (2 * probability - 1)
    END AS class_weight
FROM weighed;

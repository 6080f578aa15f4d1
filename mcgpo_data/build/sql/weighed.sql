-- What the pairs of a class have in common, as it is published; class_weight is what they share equally.
-- Reads directed, sides, discounts, posterior. One row per class.
WITH estimated AS (
    SELECT d.*, 2.0 * chosen_n * rejected_n / (chosen_n + rejected_n) AS h, x.discount, q.probability
    FROM directed d
    JOIN sides s ON s.cell = d.chosen_cell
    JOIN discounts x USING (rule)
    LEFT JOIN posterior q USING (chosen_s, chosen_n, rejected_s, rejected_n)
)
SELECT class, context, chosen AS chosen_action_key, rejected AS rejected_action_key,
       chosen_fold::SMALLINT AS chosen_fold, rejected_fold::SMALLINT AS rejected_fold,
       chosen_n AS chosen_support, rejected_n AS rejected_support,
       chosen_s / 1e9 / chosen_n AS chosen_mean, rejected_s / 1e9 / rejected_n AS rejected_mean,
       chosen_p AS chosen_estimate, rejected_p AS rejected_estimate, mu AS context_mean, delta, h AS support,
       CASE getvariable('weight')
           WHEN 'uniform' THEN 1.0
           WHEN 'support' THEN discount * h / (h + getvariable('support_prior'))
           WHEN 'support_margin' THEN discount * delta * h / (h + getvariable('support_prior'))
           ELSE discount * (2 * probability - 1)
       END AS class_weight
FROM estimated;

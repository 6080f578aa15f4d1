-- Classes with a direction: the action with the larger estimate is chosen.
-- Reads classes. Writes directed: one row per class with |delta| above margin (and floating noise); classes are numbered from 0.
CREATE TEMP TABLE directed AS
SELECT (row_number() OVER () - 1)::INTEGER AS class, context, mu, abs(p_a - p_b) AS delta,
       CASE WHEN p_a > p_b THEN a ELSE b END AS chosen, CASE WHEN p_a > p_b THEN b ELSE a END AS rejected,
       CASE WHEN p_a > p_b THEN fa ELSE fb END AS chosen_fold, CASE WHEN p_a > p_b THEN fb ELSE fa END AS rejected_fold,
       CASE WHEN p_a > p_b THEN cell_a ELSE cell_b END AS chosen_cell,
       CASE WHEN p_a > p_b THEN cell_b ELSE cell_a END AS rejected_cell,
       CASE WHEN p_a > p_b THEN n_a ELSE n_b END AS chosen_n, CASE WHEN p_a > p_b THEN n_b ELSE n_a END AS rejected_n,
       CASE WHEN p_a > p_b THEN s_a ELSE s_b END AS chosen_s, CASE WHEN p_a > p_b THEN s_b ELSE s_a END AS rejected_s,
       greatest(p_a, p_b) AS chosen_p, least(p_a, p_b) AS rejected_p
FROM classes
WHERE abs(p_a - p_b) > getvariable('margin') + 1e-12;

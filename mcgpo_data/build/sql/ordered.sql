-- The result, ids in place of numbers, in the order of the output.
-- Reads pairs, rollouts. One row per preference pair.
SELECT p.rule, p.context, w.rollout_key AS chosen_key, l.rollout_key AS rejected_key,
       w.rollout_id AS chosen_rollout_id, p.chosen_step, l.rollout_id AS rejected_rollout_id, p.rejected_step,
       p.chosen AS chosen_action_key, p.rejected AS rejected_action_key,
       w.outcome / 1e9 AS chosen_outcome, l.outcome / 1e9 AS rejected_outcome,
       p.chosen_fold::SMALLINT AS chosen_fold, p.rejected_fold::SMALLINT AS rejected_fold,
       p.chosen_n AS chosen_support, p.rejected_n AS rejected_support,
       p.chosen_s / 1e9 / p.chosen_n AS chosen_mean, p.rejected_s / 1e9 / p.rejected_n AS rejected_mean,
       p.chosen_p AS chosen_estimate, p.rejected_p AS rejected_estimate, p.mu AS context_mean, p.delta, p.h AS support,
       p.class_weight, p.class_pairs::INTEGER AS class_pairs, p.class_weight / p.class_pairs AS weight
FROM pairs p
JOIN rollouts w ON w.rollout = p.chosen_rollout
JOIN rollouts l ON l.rollout = p.rejected_rollout
ORDER BY w.unit, p.rule, p.context, p.chosen_rollout, p.chosen_step::VARCHAR, p.rejected_rollout, p.rejected_step::VARCHAR;

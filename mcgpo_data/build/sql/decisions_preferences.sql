-- Pairs of foreign decisions with their own names of contexts and actions, in the order of the output.
-- Reads pairs_found (result of ordered.sql), decisions_text, rollouts_in. One row per pair.
SELECT substr(sha256(concat_ws(chr(31), r.unit_id, p.rule, w.context, p.chosen_rollout_id, p.chosen_step,
                               p.rejected_rollout_id, p.rejected_step)), 1, 16) AS pair_id,
       r.unit_id AS group_id, r.unit_id AS task_id, p.rule, 'rule ' || p.rule AS rule_name, w.context, w.action AS chosen_action,
       l.action AS rejected_action,
       p.* EXCLUDE (rule, context, chosen_key, rejected_key, chosen_action_key, rejected_action_key)
FROM pairs_found p
JOIN rollouts_in r ON r.rollout_key = p.chosen_key
JOIN decisions_text w ON w.rollout_key = p.chosen_key AND w.step = p.chosen_step AND w.rule = p.rule
JOIN decisions_text l ON l.rollout_key = p.rejected_key AND l.step = p.rejected_step AND l.rule = p.rule
ORDER BY r.unit_id, p.rule, w.context, p.chosen_rollout_id || ':', p.chosen_step::VARCHAR, p.rejected_rollout_id || ':',
         p.rejected_step::VARCHAR, p.chosen_fold, p.rejected_fold;

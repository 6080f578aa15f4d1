-- Pairs of foreign decisions with their own names of contexts and actions, in the order of the output.
-- Reads pairs_found (result of ordered.sql), decisions_text, rollouts_in. One row per pair.
-- Sides are joined one after the other: left to itself the planner may join w with l on their rule alone.
WITH with_chosen AS MATERIALIZED (
    SELECT p.* EXCLUDE (context), w.context, w.action AS chosen_action
    FROM pairs_found p
    JOIN decisions_text w ON w.rollout_key = p.chosen_key AND w.step = p.chosen_step AND w.rule = p.rule
)
SELECT substr(sha256(concat_ws(chr(31), r.unit_id, p.rule, p.context, p.chosen_rollout_id, p.chosen_step,
                               p.rejected_rollout_id, p.rejected_step)), 1, 16) AS pair_id,
       r.unit_id AS group_id, r.unit_id AS task_id, p.rule, 'rule ' || p.rule AS rule_name, p.context,
       l.action AS rejected_action,
       p.* EXCLUDE (rule, context, chosen_key, rejected_key, chosen_action_key, rejected_action_key)
FROM with_chosen p
JOIN rollouts_in r ON r.rollout_key = p.chosen_key
JOIN decisions_text l ON l.rollout_key = p.rejected_key AND l.step = p.rejected_step AND l.rule = p.rule
ORDER BY r.unit_id, p.rule, p.context, p.chosen_rollout_id || ':', p.chosen_step::VARCHAR, p.rejected_rollout_id || ':',
         p.rejected_step::VARCHAR, p.chosen_fold, p.rejected_fold;

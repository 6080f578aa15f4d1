-- Pairs with their text keys: the thin preferences table, in the order of pairs_found.
-- Reads pairs_found (result of ordered.sql), decisions_text, rollouts_in. One row per pair.
SELECT substr(sha256(concat_ws(chr(31), r.unit_id, p.rule, p.context_name, p.chosen_rollout_id, p.chosen_step,
                               p.rejected_rollout_id, p.rejected_step)), 1, 16) AS pair_id,
       r.unit_id AS group_id, r.task_id, p.rule, w.rule_name, p.context_name AS context, w.state_summary, w.progress,
       p.* EXCLUDE (rule, context, context_name, chosen_key, rejected_key, chosen_action_key, rejected_action_key, position),
       w.action AS chosen_action, l.action AS rejected_action
FROM (
    SELECT *, row_number() OVER () AS position, lpad(to_hex(context), 15, '0') AS context_name FROM pairs_found
) p
JOIN rollouts_in r ON r.rollout_key = p.chosen_key
JOIN decisions_text w ON w.rollout_key = p.chosen_key AND w.step = p.chosen_step AND w.rule = p.rule
JOIN decisions_text l ON l.rollout_key = p.rejected_key AND l.step = p.rejected_step AND l.rule = p.rule
ORDER BY position;

-- The decisions table of one rule: summaries as text, and their keys.
-- Reads rows (what the rule made of each step), ids (whose step it is), history. One row per step, in the order of the steps.
SELECT i.group_id, i.rollout_id, i.step_index, r.state AS state_summary, coalesce(r.progress, '') AS progress, r.action,
       coalesce(r.may_count AND r.action IS NOT NULL AND r.state IS NOT NULL, false) AS valid, i.rollout_key,
       ('0x' || substr(sha256('s' || getvariable('rule') || chr(31) || coalesce(r.state, '')), 1, 15))::BIGINT AS state_key,
       ('0x' || substr(sha256('p' || getvariable('rule') || chr(31) || coalesce(r.progress, '')), 1, 15))::BIGINT AS progress_key,
       xor(h.history, ('0x' || substr(sha256('h' || getvariable('rule')), 1, 15))::BIGINT) AS history_key,
       ('0x' || substr(sha256('a' || getvariable('rule') || chr(31) || coalesce(r.action, '')), 1, 15))::BIGINT AS action_key,
       getvariable('rule')::SMALLINT AS rule, getvariable('rule_name') AS rule_name
FROM rows r JOIN ids i USING (row) JOIN history h USING (row)
ORDER BY row;

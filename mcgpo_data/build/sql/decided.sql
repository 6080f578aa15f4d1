-- The decisions table of one rule: summaries as text, and their keys.
-- Reads rows: what the rule made of each step, whose step it is, history. One row per step, in the order of the steps.
SELECT group_id, rollout_id, step_index, state AS state_summary, coalesce(progress, '') AS progress, action,
       coalesce(may_count AND action IS NOT NULL AND state IS NOT NULL, false) AS valid, rollout_key,
       ('0x' || substr(sha256('s' || getvariable('rule') || chr(31) || coalesce(state, '')), 1, 15))::BIGINT AS state_key,
       ('0x' || substr(sha256('p' || getvariable('rule') || chr(31) || coalesce(progress, '')), 1, 15))::BIGINT AS progress_key,
       xor(history, ('0x' || substr(sha256('h' || getvariable('rule')), 1, 15))::BIGINT) AS history_key,
       ('0x' || substr(sha256('a' || getvariable('rule') || chr(31) || coalesce(action, '')), 1, 15))::BIGINT AS action_key,
       getvariable('rule')::SMALLINT AS rule, getvariable('rule_name') AS rule_name
FROM rows
ORDER BY row;

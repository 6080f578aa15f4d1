-- Keys of a batch of foreign decisions. Reads batch. One row per decision and rule.
SELECT group_id, rollout_id, step, rule, context, action, coalesce(valid AND action IS NOT NULL, false) AS valid,
       round(outcome * 1e9)::BIGINT AS outcome,
       ('0x' || substr(sha256('unit' || chr(31) || group_id), 1, 15))::BIGINT AS group_key,
       ('0x' || substr(sha256(group_id || chr(31) || rollout_id), 1, 15))::BIGINT AS rollout_key,
       ('0x' || substr(sha256(rule || chr(31) || context), 1, 15))::BIGINT AS context_key,
       ('0x' || substr(sha256(rule || chr(31) || coalesce(action, '')), 1, 15))::BIGINT AS action_key
FROM batch;

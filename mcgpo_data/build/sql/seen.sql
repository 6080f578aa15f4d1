-- Keys of what was observed at a step, and of the step as a whole (its place, observation and exact action).
-- Reads observed, ids. One row per step, in the order of the steps.
SELECT ('0x' || substr(sha256('o' || chr(31) || coalesce(o.observation_key, '')), 1, 15))::BIGINT AS observation,
       ('0x' || substr(sha256(concat_ws(chr(31), i.step_index, coalesce(o.observation_key, ''), coalesce(o.action_0, ''))),
                       1, 15))::BIGINT AS step
FROM observed o JOIN ids i USING (row)
ORDER BY row;

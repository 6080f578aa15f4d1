-- Keys of what was observed at a step, and of the step as a whole (its place, observation and exact action).
-- Reads rows. One row per step, in the order of the steps.
SELECT ('0x' || substr(sha256('o' || chr(31) || coalesce(observation_key, '')), 1, 15))::BIGINT AS observation,
       ('0x' || substr(sha256(concat_ws(chr(31), step_index, coalesce(observation_key, ''), coalesce(action, ''))),
                       1, 15))::BIGINT AS step
FROM rows
ORDER BY row;

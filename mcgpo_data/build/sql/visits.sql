-- The first visit of each rollout to each (context, action), with the rollout's fold and outcome.
-- Reads decisions, rollouts. Writes visits: one row per (context, action, rollout). Only valid actions count.
-- A context key identifies group, rule, state and progress: all four are folded into it.
CREATE TEMP TABLE visits AS
SELECT xor(v.context, r.unit_key) AS context, v.action, r.rollout, r.fold, r.outcome, r.stratum, v.step, v.rule
FROM (
    SELECT rule, context, action, rollout_key, min(step) AS step
    FROM decisions
    WHERE valid
    GROUP BY rule, context, action, rollout_key
) v
JOIN rollouts r USING (rollout_key);

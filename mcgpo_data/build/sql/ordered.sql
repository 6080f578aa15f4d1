-- The pairs in the order of the output: by unit, rule, context, chosen and rejected decision, each as the text "rollout_id:step".
-- Reads pairs, directed, ranked, rollouts. One row per preference pair; class_pairs = pairs of its class.
WITH counted AS (
    SELECT class, count(*)::INTEGER AS class_pairs FROM pairs GROUP BY class
), steps AS (
    SELECT step, row_number() OVER (ORDER BY step::VARCHAR)::INTEGER AS place FROM (SELECT DISTINCT step FROM ranked)
)
SELECT p.rule, p.class, class_pairs, w.rollout AS chosen_rollout, w.step AS chosen_step, l.rollout AS rejected_rollout,
       l.step AS rejected_step
FROM pairs p
JOIN counted USING (class)
JOIN directed d USING (class)
JOIN ranked w ON w.decision = p.w
JOIN ranked l ON l.decision = p.l
JOIN rollouts r ON r.rollout = w.rollout
JOIN steps w_step ON w_step.step = w.step
JOIN steps l_step ON l_step.step = l.step
ORDER BY r.unit, p.rule, d.context, w.rollout, w_step.place, l.rollout, l_step.place;

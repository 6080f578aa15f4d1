-- How far the decisions of each rule get: contexts repeated over rollouts, with two actions, informative (two actions whose mean
-- outcomes differ), comparable, oriented, paired.
-- Reads decisions, visits, classes, directed, pairs, rollouts. One row per rule.
WITH actions AS (
    SELECT rule, context, action, min(rollout) AS low, max(rollout) AS high, count(outcome) AS n, sum(outcome) AS s
    FROM visits GROUP BY rule, context, action
), contexts AS (
    SELECT rule, context, min(low) < max(high) AS repeated, repeated AND count(*) > 1 AS two,
           coalesce(max(s::DOUBLE / nullif(n, 0)) - min(s::DOUBLE / nullif(n, 0)) > 1e-3, false) AS informative
    FROM actions GROUP BY rule, context
), placed AS MATERIALIZED (  -- on its own, lest the planner joins decisions with contexts on their rule alone
    SELECT d.rule, xor(d.context, r.unit_key) AS context FROM decisions d JOIN rollouts r USING (rollout_key) WHERE d.valid
), shares AS (
    SELECT p.rule, count(*) AS decisions, count_if(c.repeated) AS in_repeated_contexts, count_if(c.two) AS in_contexts_with_two_actions
    FROM placed p JOIN contexts c USING (context) GROUP BY p.rule
), counted AS (
    SELECT rule, count(*) AS contexts, count_if(repeated) AS repeated_contexts, count_if(two) AS contexts_with_two_actions,
           count_if(informative) AS informative_contexts
    FROM contexts GROUP BY rule
), compared AS (
    SELECT c.rule, count(DISTINCT k.context) AS comparable_contexts, count(*) AS comparable_classes
    FROM classes k JOIN contexts c USING (context) GROUP BY c.rule
), oriented AS (
    SELECT c.rule, count(*) AS oriented_classes FROM directed k JOIN contexts c USING (context) GROUP BY c.rule
), paired AS (
    SELECT rule, count(*) AS pairs FROM pairs GROUP BY rule
)
SELECT counted.rule, shares.* EXCLUDE (rule), counted.* EXCLUDE (rule), coalesce(comparable_contexts, 0) AS comparable_contexts,
       coalesce(comparable_classes, 0) AS comparable_classes, coalesce(oriented_classes, 0) AS oriented_classes,
       coalesce(pairs, 0) AS pairs
FROM counted JOIN shares USING (rule) LEFT JOIN compared USING (rule) LEFT JOIN oriented USING (rule) LEFT JOIN paired USING (rule)
ORDER BY rule;

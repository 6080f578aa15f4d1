-- Ordered fallback: candidate pairs that stay as far as rule `finer_rule` is concerned, because it does not compare them, whether
-- or not it emitted them. Two decisions of one rollout never stay.
-- Reads crossed, finer, compared. Writes crossed anew: one row per candidate pair.
CREATE OR REPLACE TEMP TABLE crossed AS
SELECT c.*
FROM crossed c
JOIN finer w ON w.decision = c.w AND w.finer_rule = getvariable('finer_rule')
JOIN finer l ON l.decision = c.l AND l.finer_rule = getvariable('finer_rule')
ANTI JOIN compared k ON k.one = w.cell AND k.other = l.cell
WHERE w.rollout <> l.rollout;

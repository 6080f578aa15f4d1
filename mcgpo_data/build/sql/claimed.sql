-- Ordered fallback: candidate pairs that a finer rule compares, whether or not it emitted them.
-- Reads crossed, finer, directed, classes. Writes claimed: one row per candidate pair to be removed.
CREATE OR REPLACE TEMP TABLE claimed AS
SELECT DISTINCT c.class, c.w, c.l
FROM crossed c
JOIN directed d USING (class)
JOIN finer w ON w.decision = c.w
JOIN finer l ON l.decision = c.l AND l.rule = w.rule AND l.context = w.context AND l.action <> w.action
SEMI JOIN classes k ON k.context = w.context AND k.a = least(w.action, l.action) AND k.b = greatest(w.action, l.action)
    AND k.fa = CASE WHEN w.action < l.action THEN d.chosen_fold ELSE d.rejected_fold END
    AND k.fb = CASE WHEN w.action < l.action THEN d.rejected_fold ELSE d.chosen_fold END
WHERE c.rule > 0;

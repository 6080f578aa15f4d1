-- Classes that need more candidates: fewer pairs than allowed, and positions left.
-- Reads pending, pairs. Writes pending anew: one row per class.
CREATE OR REPLACE TEMP TABLE pending AS
SELECT p.* REPLACE (missing - coalesce(n, 0) AS missing)
FROM pending p
LEFT JOIN (SELECT class, count(*) AS n FROM pairs WHERE position >= getvariable('low') GROUP BY class) USING (class)
WHERE chosen_size * rejected_size > getvariable('bound') AND missing > coalesce(n, 0);

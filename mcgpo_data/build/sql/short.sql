-- Classes that lost so many candidates to finer rules that the bound must grow: fewer pairs than allowed, and more to be had.
-- Reads crossed, kept_now, pending. Writes short: one row per class, as in pending.
CREATE OR REPLACE TEMP TABLE short AS
SELECT p.* FROM (
    SELECT class, any_value(total) AS total FROM crossed WHERE rule > 0 GROUP BY class
) c
JOIN pending p USING (class)
LEFT JOIN (SELECT class, count(*) AS n FROM kept_now GROUP BY class) k USING (class)
WHERE coalesce(k.n, 0) < getvariable('max_pairs_per_class') AND c.total > getvariable('bound');

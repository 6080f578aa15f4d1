-- Of each pending class the first candidates stay: max_pairs_per_class in all. At positions below that number none is too many.
-- Reads crossed, pending. Adds to pairs: one row per pair of decisions (w, l).
INSERT INTO pairs
SELECT class, rule, position, w, l FROM crossed WHERE position < getvariable('max_pairs_per_class')
UNION ALL
SELECT class, rule, position, w, l FROM crossed JOIN pending USING (class, rule)
WHERE position >= getvariable('max_pairs_per_class')
QUALIFY row_number() OVER (PARTITION BY class ORDER BY position) <= missing;

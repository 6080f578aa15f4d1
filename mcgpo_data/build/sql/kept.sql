-- Pairs that stay: the first max_pairs_per_class of each pending class that no finer rule claims.
-- Reads crossed, claimed. Writes kept_now: one row per pair.
CREATE OR REPLACE TEMP TABLE kept_now AS
SELECT class, rule, w, l
FROM crossed ANTI JOIN claimed USING (class, w, l)
QUALIFY row_number() OVER (PARTITION BY class ORDER BY diagonal, rank) <= getvariable('max_pairs_per_class');

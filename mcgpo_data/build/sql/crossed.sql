-- Candidate pairs: the positions low .. bound - 1 of W x L in diagonal order.
-- Reads pending. Writes crossed: one row per candidate pair of decisions (w, l).
-- Diagonal d = (rank_L - rank_W) mod max(|W|, |L|) holds min(|W|, |L|) pairs, in the order of rank_W. Where |W| <= |L| the i-th is
-- that of the i-th of W. Where |W| > |L| the ranks 0 .. |L| - d - 1 come first, whose partner is rank_W + d; then the last d
-- ranks, from |W| - d on, whose partners are the first of L (no more than |L| of them).
CREATE OR REPLACE TEMP TABLE crossed AS
WITH positions AS (
    SELECT unnest(range(getvariable('low'), least(getvariable('bound'), most)))::INTEGER AS position
    FROM (SELECT coalesce(max(chosen_size * rejected_size), 0) AS most FROM pending)
), places AS (
    SELECT *, least(chosen_size, rejected_size) AS length, position // length AS d, position % length AS i
    FROM pending JOIN positions ON position < chosen_size * rejected_size
), ranks AS (
    SELECT *, CASE WHEN chosen_size <= rejected_size OR i < rejected_size - d THEN i
                   ELSE chosen_size - d + i - greatest(rejected_size - d, 0) END AS chosen_rank
    FROM places
)
SELECT class, rule, position, chosen_first + chosen_rank AS w,
       rejected_first + (chosen_rank + d) % greatest(chosen_size, rejected_size) AS l
FROM ranks;

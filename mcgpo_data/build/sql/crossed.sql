-- Candidate pairs W x L of the pending classes in diagonal order, up to a bound; never two decisions of one rollout.
-- Reads pending, ranked. Writes crossed: one row per candidate pair (w, l); total = |W| * |L| of its class.
-- A diagonal holds m = min(|W|, |L|) pairs, of which at most m in all are of one rollout, so that everything up to position
-- `bound` lies on diagonals d with (d - 1) * m < bound.
CREATE OR REPLACE TEMP TABLE crossed AS
SELECT p.class, w.rule, w.decision AS w, l.decision AS l, w.size * l.size AS total,
       (l.rank - w.rank + greatest(w.size, l.size)) % greatest(w.size, l.size) AS diagonal, w.rank AS rank
FROM pending p
JOIN ranked w ON w.cell = p.chosen_cell
JOIN ranked l ON l.cell = p.rejected_cell
WHERE w.rollout <> l.rollout AND (diagonal - 1) * least(w.size, l.size) < getvariable('bound');

-- Classes that need pairs: at first all directed ones.
-- Reads directed, sides. Writes pending: one row per class; first and size of both sides; missing = pairs still to be found.
CREATE TEMP TABLE pending AS
SELECT d.class, w.rule, w.first AS chosen_first, w.size AS chosen_size, l.first AS rejected_first, l.size AS rejected_size,
       getvariable('max_pairs_per_class') AS missing
FROM directed d
JOIN sides w ON w.cell = d.chosen_cell
JOIN sides l ON l.cell = d.rejected_cell;

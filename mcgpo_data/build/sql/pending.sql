-- Classes that still need pairs: at first all directed ones.
-- Reads directed, sides. Writes pending: one row per class.
CREATE TEMP TABLE pending AS
SELECT d.class, w.cell AS chosen_cell, l.cell AS rejected_cell
FROM directed d
JOIN sides w ON w.context = d.context AND w.action = d.chosen AND w.fold = d.chosen_fold
JOIN sides l ON l.context = d.context AND l.action = d.rejected AND l.fold = d.rejected_fold;

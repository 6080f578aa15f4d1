-- Where the decisions of a cell begin, and how many of them may enter pairs.
-- Reads ranked. Writes sides: one row per cell.
CREATE TEMP TABLE sides AS
SELECT cell, rule, min(decision) AS first, least(count(*), getvariable('max_decisions_per_side'))::INTEGER AS size
FROM ranked
GROUP BY cell, rule;

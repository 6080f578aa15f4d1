-- The cells that are a side of a directed class, numbered.
-- Reads directed. Writes sides: one row per (context, action, fold).
CREATE TEMP TABLE sides AS
SELECT row_number() OVER ()::INTEGER AS cell, * FROM (
    SELECT context, chosen AS action, chosen_fold AS fold FROM directed
    UNION
    SELECT context, rejected, rejected_fold FROM directed
);

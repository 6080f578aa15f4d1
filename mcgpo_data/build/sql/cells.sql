-- Evidence and candidates per (context, action, fold), only in contexts that can hold a comparison: at least two actions, each
-- seen in at least min_folds folds (2 when evidence comes from the opposite fold, else 1).
-- Reads visits. Writes cells: one row per (context, action, fold), numbered; n graded rollouts with outcomes s in units of 1e-9.
CREATE TEMP TABLE cells AS
WITH counted AS (
    SELECT context, action, fold, count(*) AS decisions, count(outcome) AS n, coalesce(sum(outcome), 0)::BIGINT AS s
    FROM visits
    GROUP BY context, action, fold
), alive AS (
    SELECT context FROM (
        SELECT context, action FROM counted
        GROUP BY context, action
        HAVING count(*) >= getvariable('min_folds') AND sum(n) >= getvariable('min_support')
    )
    GROUP BY context
    HAVING count(*) >= 2
)
SELECT row_number() OVER ()::INTEGER AS cell, * FROM counted SEMI JOIN alive USING (context);

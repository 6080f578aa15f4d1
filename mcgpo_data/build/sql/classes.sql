-- Comparable classes: two actions of one context, candidates in folds fa and fb, evidence for both in the folds that may judge.
-- Reads cells, evidence, both_taken. Writes classes: one row per (context, a < b, fa, fb).
-- p = (S + kappa mu) / (n + kappa), mu = mean outcome of all evidence entries of the context; stratified: see the method.
CREATE TEMP TABLE classes AS
WITH means AS (
    SELECT context, f, g, sum(s)::DOUBLE / (1e9 * sum(n)::DOUBLE) AS mu
    FROM evidence GROUP BY context, f, g
), offers AS (
    SELECT e.context, e.action, c.cell, e.f AS own, e.g AS other, e.n, e.s, e.x
    FROM evidence e
    JOIN cells c ON c.context = e.context AND c.action = e.action AND c.fold = e.f
    WHERE e.n >= getvariable('min_support')
), met AS (
    SELECT a.context, a.action AS a, b.action AS b, a.own AS fa, b.own AS fb, a.cell AS cell_a, b.cell AS cell_b, m.mu,
           a.n - coalesce(t.n, 0) AS n_a, a.s - coalesce(t.s, 0) AS s_a, a.x - coalesce(t.x, 0) AS x_a,
           b.n - coalesce(t.n, 0) AS n_b, b.s - coalesce(t.s, 0) AS s_b, b.x - coalesce(t.x, 0) AS x_b
    FROM offers a
    JOIN offers b ON a.context = b.context AND a.own = b.other AND a.other = b.own AND a.action < b.action
    JOIN means m ON m.context = a.context AND m.f = a.own AND m.g = a.other
    LEFT JOIN both_taken t ON t.context = a.context AND t.a = a.action AND t.b = b.action AND t.f = a.own AND t.g = a.other
), estimates AS (
    SELECT *,
        CASE WHEN getvariable('stratified')
            THEN mu + (s_a::DOUBLE - x_a::DOUBLE / 1e4) / 1e9 / (n_a + getvariable('kappa'))
            ELSE (s_a / 1e9 + getvariable('kappa') * mu) / (n_a + getvariable('kappa')) END AS p_a,
        CASE WHEN getvariable('stratified')
            THEN mu + (s_b::DOUBLE - x_b::DOUBLE / 1e4) / 1e9 / (n_b + getvariable('kappa'))
            ELSE (s_b / 1e9 + getvariable('kappa') * mu) / (n_b + getvariable('kappa')) END AS p_b
    FROM met
    WHERE n_a >= getvariable('min_support') AND n_b >= getvariable('min_support')
)
SELECT * EXCLUDE (x_a, x_b) FROM estimates;

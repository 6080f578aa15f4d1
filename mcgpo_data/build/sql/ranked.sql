-- Candidates: the decisions of all cells that are a side of a directed class, in hash order within their cell.
-- Reads directed, live, rollouts. Writes ranked: one row per decision; those of one cell have consecutive numbers.
-- Hash order is by the first 60 bits of sha256(seed || rollout_id || ':' || step).
CREATE TEMP TABLE ranked AS
SELECT row_number() OVER (ORDER BY cell, digest, rollout, step)::INTEGER AS decision, cell, rollout, step, rule
FROM (
    SELECT v.cell, v.rollout, v.step, v.rule, CASE WHEN NOT v.alone THEN
        ('0x' || left(sha256(getvariable('seed') || r.rollout_id || ':' || v.step), 15))::BIGINT END AS digest
    FROM live v
    JOIN rollouts r USING (rollout)
    WHERE v.cell IN (SELECT chosen_cell FROM directed UNION SELECT rejected_cell FROM directed)
);

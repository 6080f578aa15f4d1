-- Visits to the cells: what evidence and candidates are made of.
-- Reads visits, cells. Writes live: one row per (context, action, rollout); alone: no other decision in its cell.
CREATE TEMP TABLE live AS
SELECT c.cell, c.decisions = 1 AS alone, v.*
FROM visits v
JOIN cells c ON c.context = v.context AND c.action = v.action AND c.fold = v.fold;

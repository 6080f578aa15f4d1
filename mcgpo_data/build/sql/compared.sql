-- Cells whose actions are comparable, both ways round.
-- Reads classes. Writes compared: two rows per class.
CREATE TEMP TABLE compared AS
SELECT cell_a AS one, cell_b AS other FROM classes UNION ALL SELECT cell_b, cell_a FROM classes;

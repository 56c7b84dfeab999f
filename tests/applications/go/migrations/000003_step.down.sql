ALTER TABLE writer DROP INDEX name, ADD UNIQUE name (name), DROP CONSTRAINT score_is_positive, DROP COLUMN score, DROP COLUMN data;
RENAME TABLE writer TO author;

RENAME TABLE author TO writer;
ALTER TABLE writer ADD COLUMN score decimal(8,3) NOT NULL DEFAULT 1.5, ADD COLUMN data json, ADD CONSTRAINT score_is_positive CHECK (score > 0);
ALTER TABLE writer DROP INDEX name, ADD INDEX name (name, score DESC);


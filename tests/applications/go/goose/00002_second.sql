-- +goose Up
ALTER TABLE post MODIFY title text NOT NULL, ADD UNIQUE unique_title (title(100)), ADD COLUMN slug varchar(80) NULL AFTER title;
UPDATE post SET slug = LOWER(CONCAT(title, '-', id));
ALTER TABLE post MODIFY slug varchar(80) NOT NULL, ADD UNIQUE (slug), DROP INDEX title_author;
ALTER TABLE post ADD FOREIGN KEY (author_id) REFERENCES author (id) ON DELETE SET NULL;
-- +goose StatementBegin
CREATE OR REPLACE VIEW titles AS
  SELECT p.title, a.name FROM post p LEFT JOIN author a ON a.id = p.author_id;
-- +goose StatementEnd

-- +goose Down
DROP VIEW titles;
ALTER TABLE post DROP FOREIGN KEY post_ibfk_1, DROP INDEX author_id;
ALTER TABLE post DROP INDEX slug, DROP COLUMN slug, DROP INDEX unique_title, MODIFY title varchar(200) NOT NULL, ADD KEY title_author (title(20), author_id);

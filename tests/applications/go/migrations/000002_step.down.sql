DROP VIEW titles;
ALTER TABLE post DROP FOREIGN KEY post_ibfk_1, DROP INDEX author_id;
ALTER TABLE post DROP INDEX slug, DROP COLUMN slug, DROP INDEX unique_title, MODIFY title varchar(200) NOT NULL, ADD KEY title_author (title(20), author_id);

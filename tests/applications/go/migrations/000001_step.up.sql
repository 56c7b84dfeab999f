CREATE TABLE post (
  id int unsigned NOT NULL AUTO_INCREMENT,
  title varchar(200) NOT NULL,
  body text,
  author_id int,
  PRIMARY KEY (id), KEY title_author (title(20), author_id)
);
CREATE TABLE author (id int NOT NULL PRIMARY KEY AUTO_INCREMENT, name varchar(60) UNIQUE);
INSERT INTO author (name) VALUES ('Ann'), ('Bob');
INSERT INTO post (title, body, author_id) VALUES ('a', 'x; y', 1), ('b', NULL, 2);


DROP TABLE post;
DROP TABLE author;

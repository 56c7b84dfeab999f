CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.kinds (
  id BIGINT PRIMARY KEY AUTO_INCREMENT, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT UNSIGNED, i INT, b BIGINT UNSIGNED,
  f FLOAT, d DOUBLE, n DECIMAL(10,2), w DECIMAL(30,10), x DECIMAL(65,30), c CHAR(10), v VARCHAR(255), vb VARBINARY(40),
  tx TEXT, bl BLOB, dt DATE, dtm DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(2), y YEAR, e ENUM('red','green'), st SET('a','b','c'),
  bi BIT(12), j JSON, bo BOOL);
INSERT INTO shop.kinds VALUES (1,-128,255,-32768,16777215,-2147483648,18446744073709551615,1.5,2.25,12345678.91,
  12345678901234567890.0123456789,12345678901234567890123456789012345.123456789012345678901234567890,'abc','Größe',X'00FF10','long','blob',
  '2026-02-28','2026-02-28 23:59:59.123456','2026-02-28 12:00:00.125','-838:59:59.00',2026,'green','a,c',b'101010101010','{"k": [1, 2, {"z": null}]}',TRUE);
INSERT INTO shop.kinds (id) VALUES (2);
INSERT INTO shop.kinds (t, v, n, j) VALUES (7, 'seven', 7.77, '[7]');
ALTER TABLE shop.kinds ADD INDEX (v), ADD INDEX (n), ADD INDEX (x), ADD UNIQUE (b), ADD INDEX (dtm, c), ADD INDEX (tm), ADD INDEX (e), ADD INDEX (vb(3));
CREATE TABLE shop.changed (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY (a), UNIQUE KEY (b));
INSERT INTO shop.changed VALUES (1, 10, 'ten'), (2, 20, 'twenty'), (3, NULL, NULL), (4, NULL, NULL);
ALTER TABLE shop.changed ADD COLUMN c INT NOT NULL DEFAULT 5;
INSERT INTO shop.changed VALUES (5, 50, 'fifty', 55);
ALTER TABLE shop.changed MODIFY a VARCHAR(12);
ALTER TABLE shop.changed ADD COLUMN g VARCHAR(40) AS (CONCAT(a, '-', c)) VIRTUAL;
ALTER TABLE shop.changed ADD INDEX (g), ADD INDEX ((c + 1)), ADD COLUMN gone INT;
ALTER TABLE shop.changed DROP COLUMN gone, RENAME COLUMN b TO bee;
CREATE TABLE shop.words (w VARCHAR(60) COLLATE utf8mb4_general_ci, n INT, PRIMARY KEY (w(20), n) CLUSTERED, KEY (n));
INSERT INTO shop.words VALUES ('Apple', 1), ('apple pie', 2), ('Zebra ', 3);
CREATE TABLE shop.loose (a INT, b INT, KEY (a DESC, b));
INSERT INTO shop.loose VALUES (1, 1), (1, 1), (2, NULL);
CREATE TABLE shop.random (id BIGINT PRIMARY KEY AUTO_RANDOM(5), v INT);
INSERT INTO shop.random (v) VALUES (1), (2);
CREATE TABLE shop.byrange (id INT PRIMARY KEY, v INT, KEY (v)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION rest VALUES LESS THAN MAXVALUE);
INSERT INTO shop.byrange VALUES (1, 1), (11, 11), (21, 21);
CREATE TABLE shop.bylist (id INT, v INT) PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2), PARTITION b VALUES IN (3, NULL));
INSERT INTO shop.bylist VALUES (1, 1), (3, 3), (NULL, 0);
CREATE TABLE shop.byhash (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO shop.byhash VALUES (1, 1), (2, 2), (3, 3), (4, 4);
CREATE TABLE shop.bykey (id VARCHAR(9) PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 2;
INSERT INTO shop.bykey VALUES ('a'), ('b'), ('c');
CREATE TABLE shop.parents (id INT PRIMARY KEY, code INT UNIQUE);
CREATE TABLE shop.children (id INT PRIMARY KEY, parent INT, code INT, CONSTRAINT fp FOREIGN KEY (parent) REFERENCES shop.parents (id) ON DELETE CASCADE, CONSTRAINT fc FOREIGN KEY (code) REFERENCES shop.parents (code), CONSTRAINT positive CHECK (id > 0));
INSERT INTO shop.parents VALUES (1, 100), (2, 200);
INSERT INTO shop.children VALUES (1, 1, NULL), (2, 2, 200);
CREATE VIEW shop.seen (name, twice) AS SELECT bee, c * 2 FROM shop.changed WHERE c > 4;
CREATE SEQUENCE shop.numbers START WITH 100 INCREMENT BY 5 CACHE 10;
SELECT NEXTVAL(shop.numbers);
CREATE USER 'reader'@'%' IDENTIFIED BY 'secret';
GRANT SELECT ON shop.* TO 'reader'@'%';
GRANT UPDATE (v) ON shop.kinds TO 'reader'@'%';
CREATE ROLE clerk;
GRANT INSERT ON shop.loose TO clerk;
GRANT clerk TO 'reader'@'%';
SET GLOBAL max_connections = 777;
SET GLOBAL exuvia_drop_retention_s = 31536000;
ANALYZE TABLE shop.changed;
CREATE TABLE shop.lost (id INT PRIMARY KEY, v INT, KEY (v));
INSERT INTO shop.lost VALUES (1, 1), (2, 2);
DROP TABLE shop.lost;
CREATE TABLE shop.emptied (id INT PRIMARY KEY, v INT, KEY (v));
INSERT INTO shop.emptied VALUES (1, 1);
TRUNCATE TABLE shop.emptied;
INSERT INTO shop.emptied VALUES (3, 3);
CREATE TABLE shop.many (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b INT);
INSERT INTO shop.many (a, b) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8);
INSERT INTO shop.many (a, b) SELECT m.id * 8 + n.a, n.b FROM shop.many m, shop.many n;
INSERT INTO shop.many (a, b) SELECT m.a * 64 + n.a, n.b FROM shop.many m, shop.many n WHERE n.id <= 60;
CREATE TABLE shop.logged (id INT PRIMARY KEY, v INT, KEY (v));
INSERT INTO shop.logged VALUES (1, 1), (2, 2), (3, 3);
ALTER TABLE shop.logged EXUVIA_CHANGE_LOG = ON;
UPDATE shop.logged SET v = 20 WHERE id = 2;
DELETE FROM shop.logged WHERE id = 3;

-- several kinds of statements, with a delimiter of their own
ALTER TABLE account ADD COLUMN (phone VARCHAR(30) NULL, born DATE NULL), ADD INDEX ix_born (born);
CREATE TABLE payment (
  id INT UNSIGNED NOT NULL PRIMARY KEY AUTO_INCREMENT, account_id BIGINT NOT NULL, amount DECIMAL(12,2) NOT NULL CHECK (amount <> 0),
  CONSTRAINT fk_account FOREIGN KEY (account_id) REFERENCES account (id) ON DELETE CASCADE ON UPDATE CASCADE
);
DELIMITER $$
INSERT INTO payment (account_id, amount) SELECT id, balance FROM account WHERE balance > 5$$
DELIMITER ;
/*!40101 SET @before = @@sql_mode */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE OR REPLACE VIEW rich AS SELECT name, balance FROM account WHERE balance >= 15;
UPDATE account a JOIN payment p ON p.account_id = a.id SET a.balance = a.balance - p.amount, a.phone = CONCAT('+', p.id);
ALTER TABLE account CHANGE COLUMN name full_name VARCHAR(160) NOT NULL, MODIFY kind ENUM('private','business','state') NOT NULL DEFAULT 'state', DROP COLUMN flags, RENAME INDEX ix_born TO by_birth;

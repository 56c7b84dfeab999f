ALTER TABLE payment DROP FOREIGN KEY fk_account, DROP INDEX fk_account, ADD COLUMN at TIMESTAMP(3) NULL DEFAULT NULL AFTER account_id;
ALTER TABLE payment ADD CONSTRAINT fk_account2 FOREIGN KEY (account_id) REFERENCES account (id);
RENAME TABLE payment TO payments;
ALTER TABLE payments COMMENT = 'renamed', AUTO_INCREMENT = 1000;
INSERT INTO payments (account_id, amount) VALUES (1, 3);
CREATE TABLE copied LIKE payments;
INSERT INTO copied SELECT * FROM payments ON DUPLICATE KEY UPDATE amount = VALUES(amount);
DROP VIEW rich;
CREATE UNIQUE INDEX once ON copied (account_id, amount DESC);

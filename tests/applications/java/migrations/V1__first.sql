CREATE TABLE IF NOT EXISTS account (
  id BIGINT NOT NULL AUTO_INCREMENT,
  name VARCHAR(80) NOT NULL,
  email VARCHAR(120),
  balance DECIMAL(12,2) NOT NULL DEFAULT 0.00,
  kind ENUM('private','business') NOT NULL DEFAULT 'private',
  flags SET('a','b','c'),
  opened DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (id), UNIQUE KEY uk_email (email), KEY ix_name (name(10))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='accounts; of "customers"';
INSERT INTO account (name, email, balance) VALUES ('Ann; O''Hara', 'ann@x', 10.50), ('Bob', 'bob@x', 20);

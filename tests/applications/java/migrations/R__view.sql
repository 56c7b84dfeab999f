CREATE OR REPLACE VIEW totals AS SELECT account_id, SUM(amount) AS total FROM payments GROUP BY account_id;

-- The engine's tables and functions in its schema; created by the first process that opens it.
--
--   kv       the store: a key, and the stamp of its commit (8 bytes, little-endian) with the payload
--   log_order  the order of commits that write a change log
--   slot     for each connection that commits, the number n of its last commit
--   about    the layout, the server's identifier, and the number to add to a transaction's number to
--            get its stamp: on another server, a copy of the database has new transaction numbers
--
-- A commit is one call of commit_packet, in a transaction of its own (READ COMMITTED: each query
-- below sees the commits before its begin). All take locks in the same order, so a waiter waits for
-- the end of a commit. Cycles are rare, and the server ends them:
--
--   1 gates     advisory locks, in order of their numbers: shared to require an epoch or a revision,
--               exclusive to write one. They are fair, so writers are not starved
--   2 slot      a query for an outcome waits here, or closes the slot
--   3 rows      required to be unchanged, in key order: exclusive if they are written, too
--   4 absences  required but not written: an empty row reserves the key, and is removed again
--   5 new rows, then unique entries, then blind writes, each in key order
--
-- A large packet is several calls in one transaction: the first has the locks and requirements.
-- A refusal ends the transaction by an error of class EX; then nothing is written.

CREATE TABLE about (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  layout int NOT NULL,
  server bigint NOT NULL,
  base bigint NOT NULL
);

CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL) WITH (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1
);
ALTER TABLE kv ALTER COLUMN v SET STORAGE EXTERNAL;  -- the first bytes are read for themselves

CREATE TABLE slot (
  id uuid PRIMARY KEY,
  n bigint NOT NULL DEFAULT 0,
  stamp bigint NOT NULL DEFAULT 0,
  closed boolean NOT NULL DEFAULT false,
  made timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20);

-- Taken when a commit holds all its locks, so that the later of two commits that write the same row
-- has the greater number. Transaction numbers are not in that order.
CREATE SEQUENCE log_order;

CREATE FUNCTION le(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(
    '\x0000000000000000'::bytea,
    0, (n & 255)::int), 1, (n >> 8 & 255)::int), 2, (n >> 16 & 255)::int),
    3, (n >> 24 & 255)::int), 4, (n >> 32 & 255)::int), 5, (n >> 40 & 255)::int),
    6, (n >> 48 & 255)::int), 7, (n >> 56 & 255)::int)
$$;

CREATE FUNCTION from_le(b bytea) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT get_byte(b, 0)::bigint | (get_byte(b, 1)::bigint << 8) | (get_byte(b, 2)::bigint << 16)
    | (get_byte(b, 3)::bigint << 24) | (get_byte(b, 4)::bigint << 32)
    | (get_byte(b, 5)::bigint << 40) | (get_byte(b, 6)::bigint << 48)
    | (get_byte(b, 7)::bigint << 56)
$$;

CREATE FUNCTION number_of(b bytea) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(('x' || encode(b, 'hex'))::bit(64)::bigint, 0)
$$;

CREATE FUNCTION refuse(code text, key bytea, more text DEFAULT '') RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = 'refused', DETAIL = encode(key, 'hex'),
    HINT = more;
END $$;

-- EX001 an epoch is another's; EX002 a revision is too far ahead
CREATE FUNCTION check_fences(
  equal_keys bytea[], equal_values bytea[], most_keys bytea[], most_values bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE bad bytea;
BEGIN
  IF equal_keys IS NOT NULL THEN
    SELECT u.k INTO bad FROM unnest(equal_keys, equal_values) u(k, p) LEFT JOIN kv USING (k)
      WHERE substr(kv.v, 9) IS DISTINCT FROM u.p LIMIT 1;
    IF bad IS NOT NULL THEN PERFORM refuse('EX001', bad); END IF;
  END IF;
  IF most_keys IS NOT NULL THEN
    SELECT u.k INTO bad FROM unnest(most_keys, most_values) u(k, p) LEFT JOIN kv USING (k)
      WHERE (substr(kv.v, 9) <= u.p) IS NOT TRUE LIMIT 1;
    IF bad IS NOT NULL THEN PERFORM refuse('EX002', bad); END IF;
  END IF;
END $$;

CREATE FUNCTION take_gates(gates bigint[], alone boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR n IN 1 .. cardinality(gates) LOOP
    IF alone[n] THEN PERFORM pg_advisory_xact_lock(gates[n]);
    ELSE PERFORM pg_advisory_xact_lock_shared(gates[n]);
    END IF;
  END LOOP;
END $$;

-- EX006 the slot was closed by a query for an outcome
CREATE FUNCTION advance(slot_id uuid, slot_n bigint, stamp_ bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE slot SET n = slot_n, stamp = stamp_ WHERE id = slot_id AND NOT closed;
  IF NOT FOUND THEN PERFORM refuse('EX006', ''); END IF;
END $$;

-- Locks existing rows in key order; exclusively if `alone` is null.
CREATE FUNCTION lock_rows(keys bytea[], alone boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF alone IS NULL THEN
    PERFORM 1 FROM (SELECT k FROM kv WHERE k = ANY (keys) ORDER BY k FOR NO KEY UPDATE) found;
    RETURN;
  END IF;
  FOR n IN 1 .. cardinality(keys) LOOP
    IF alone[n] THEN PERFORM 1 FROM kv WHERE k = keys[n] FOR NO KEY UPDATE;
    ELSE PERFORM 1 FROM kv WHERE k = keys[n] FOR SHARE;
    END IF;
  END LOOP;
END $$;

-- EX007 a key is locked by a running transaction. Up to 64 keys are locked until the end of this
-- commit, so that later lockers wait for it; more keys are only checked.
CREATE FUNCTION check_free(locks bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE held bigint;
BEGIN
  IF cardinality(locks) <= 64 THEN
    FOR n IN 1 .. cardinality(locks) LOOP
      IF NOT pg_try_advisory_xact_lock(locks[n]) THEN PERFORM refuse('EX007', int8send(locks[n])); END IF;
    END LOOP;
    RETURN;
  END IF;
  SELECT classid::bigint << 32 | objid::bigint INTO held FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32 | objid::bigint) = ANY (locks) LIMIT 1;
  IF FOUND THEN PERFORM refuse('EX007', int8send(held)); END IF;
END $$;

-- EX003 another commit came first; EX004 a unique entry is another row's
CREATE FUNCTION commit_packet(
  slot_id uuid, slot_n bigint, base bigint,
  gates bigint[], gates_alone boolean[],
  equal_keys bytea[], equal_values bytea[], most_keys bytea[], most_values bytea[],
  lock_keys bytea[], lock_alone boolean[],
  hold_keys bytea[],
  same_keys bytea[], same_stamps bytea[],
  mark_headers bytea[], mark_keys bytea[], mark_of bytea[], mark_since int[], views text[],
  horizons bigint[], floor_key bytea,
  new_keys bytea[], new_values bytea[],
  old_keys bytea[], old_values bytea[],
  claim_keys bytea[], claim_values bytea[],
  gone_keys bytea[], release_keys bytea[], release_values bytea[],
  any_keys bytea[], any_values bytea[], once_keys bytea[],
  judged_keys bytea[], judged_kinds int[], judged_values bytea[],
  log_heads bytea[], log_values bytea[], log_first bigint,
  channels bytea[], free_locks bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  stamp_ bigint := base + pg_current_xact_id()::text::bigint;
  head bytea := le(stamp_);
  bad bytea;
  other bytea;
  number bigint;
BEGIN
  IF free_locks IS NOT NULL THEN PERFORM check_free(free_locks); END IF;
  IF gates IS NOT NULL THEN PERFORM take_gates(gates, gates_alone); END IF;
  IF slot_id IS NOT NULL THEN PERFORM advance(slot_id, slot_n, stamp_); END IF;
  IF lock_keys IS NOT NULL THEN PERFORM lock_rows(lock_keys, lock_alone); END IF;
  PERFORM check_fences(equal_keys, equal_values, most_keys, most_values);
  IF hold_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, '' FROM unnest(hold_keys) u(k) ORDER BY 1 ON CONFLICT (k) DO NOTHING;
  END IF;
  IF same_keys IS NOT NULL THEN
    SELECT u.k INTO bad FROM unnest(same_keys, same_stamps) u(k, s)
      LEFT JOIN kv USING (k) WHERE coalesce(substr(kv.v, 1, 8), '') <> u.s LIMIT 1;
    IF bad IS NOT NULL THEN PERFORM refuse('EX003', bad); END IF;
  END IF;
  IF new_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || u.p FROM unnest(new_keys, new_values) u(k, p) ORDER BY 1
      ON CONFLICT (k) DO NOTHING;
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number < cardinality(new_keys) THEN
      SELECT k INTO bad FROM kv WHERE k = ANY (new_keys) AND substr(v, 1, 8) <> head LIMIT 1;
      PERFORM refuse('EX003', coalesce(bad, new_keys[1]));
    END IF;
  END IF;
  IF old_keys IS NOT NULL THEN
    UPDATE kv SET v = head || u.p FROM unnest(old_keys, old_values) u(k, p) WHERE kv.k = u.k;
  END IF;
  IF claim_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || u.p FROM unnest(claim_keys, claim_values) u(k, p) ORDER BY 1
      ON CONFLICT (k) DO UPDATE SET v = excluded.v
      WHERE substr(kv.v, 9) = substr(excluded.v, 9) OR substr(kv.v, 9, 1) <> '\x00';
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number < cardinality(claim_keys) THEN
      SELECT kv.k, kv.v INTO bad, other FROM unnest(claim_keys, claim_values) u(k, p) JOIN kv USING (k)
        WHERE substr(kv.v, 9) <> u.p LIMIT 1;
      PERFORM refuse('EX004', bad, encode(substr(other, 10), 'hex'));
    END IF;
  END IF;
  IF judged_keys IS NOT NULL THEN
    PERFORM judge_each(head, judged_keys, judged_kinds, judged_values);
  END IF;
  IF mark_keys IS NOT NULL AND EXISTS (SELECT 1 FROM kv WHERE k = ANY (mark_headers)) THEN
    PERFORM check_marks(base, mark_keys, mark_of, mark_since, views, horizons, floor_key);
  END IF;
  IF gone_keys IS NOT NULL THEN
    DELETE FROM kv WHERE k = ANY (gone_keys);
  END IF;
  IF release_keys IS NOT NULL THEN
    DELETE FROM kv USING unnest(release_keys, release_values) u(k, p)
      WHERE kv.k = u.k AND substr(kv.v, 9) = u.p;
  END IF;
  IF any_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || u.p FROM unnest(any_keys, any_values) u(k, p) ORDER BY 1
      ON CONFLICT (k) DO UPDATE SET v = excluded.v;
  END IF;
  IF once_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head FROM unnest(once_keys) u(k) ORDER BY 1
      ON CONFLICT (k) DO NOTHING;
  END IF;
  IF log_heads IS NOT NULL THEN  -- keys as kv/change_log.py has them
    other := int8send(stamp_) || int8send(nextval('log_order'));
    INSERT INTO kv SELECT u.h || other || int4send((log_first + u.n - 1)::int), head || u.p
      FROM unnest(log_heads, log_values) WITH ORDINALITY u(h, p, n);
  END IF;
  IF hold_keys IS NOT NULL THEN
    DELETE FROM kv WHERE k = ANY (hold_keys) AND v = '';
  END IF;
  IF channels IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || int8send(1) FROM unnest(channels) u(k) ORDER BY 1
      ON CONFLICT (k) DO UPDATE SET v = head || int8send(number_of(substr(kv.v, 9)) + 1);
  END IF;
  RETURN stamp_;
END $$;

-- EX003 another transaction has left a lock mark since a view
CREATE FUNCTION check_marks(
  base bigint, mark_keys bytea[], mark_of bytea[], mark_since int[], views text[],
  horizons bigint[], floor_key bytea
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  bad bytea;
  floor bigint;
BEGIN
  SELECT number_of(substr(v, 9)) INTO floor FROM kv WHERE k = floor_key;
  IF (SELECT min(h) FROM unnest(horizons) h) < floor THEN
    PERFORM refuse('EX003', mark_of[1], 'lock marks removed');
  END IF;
  SELECT m.o INTO bad FROM (
    SELECT u.o, u.g, from_le(substr(kv.v, 1, 8)) - base AS x
      FROM unnest(mark_keys, mark_of, mark_since) u(k, o, g) JOIN kv USING (k)
  ) m WHERE m.x > 0 AND NOT pg_visible_in_snapshot(m.x::text::xid8, views[m.g]::pg_snapshot) LIMIT 1;
  IF bad IS NOT NULL THEN PERFORM refuse('EX003', bad, 'locked meanwhile'); END IF;
END $$;

-- Applies writes of each key in order to its present entry; kinds as in kv/packet.py.
CREATE FUNCTION judge_each(head bytea, keys bytea[], kinds int[], payloads bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  at int := 1;
  key bytea;
  stood bytea;
  held bytea;
  written boolean;
  fresh boolean;
  mine boolean;
BEGIN
  WHILE at <= cardinality(keys) LOOP
    key := keys[at];
    INSERT INTO kv VALUES (key, '') ON CONFLICT (k) DO NOTHING;
    fresh := FOUND;
    SELECT v INTO stood FROM kv WHERE k = key FOR NO KEY UPDATE;
    IF stood IS NULL THEN PERFORM refuse('EX005', key); END IF;
    held := CASE WHEN length(stood) = 0 THEN NULL ELSE substr(stood, 9) END;
    written := false;
    WHILE at <= cardinality(keys) AND keys[at] = key LOOP
      mine := held IS NULL OR held = payloads[at];
      CASE
        WHEN kinds[at] <= 1 THEN held := payloads[at]; written := true;
        WHEN kinds[at] <= 3 THEN held := NULL; written := true;
        WHEN kinds[at] = 4 THEN held := '\x01'; written := true;
        WHEN kinds[at] = 5 THEN
          IF NOT mine AND substr(held, 1, 1) = '\x00' THEN
            PERFORM refuse('EX004', key, encode(substr(held, 2), 'hex'));
          END IF;
          held := payloads[at]; written := true;
        WHEN mine THEN
          held := CASE WHEN kinds[at] = 6 THEN NULL ELSE '\x01'::bytea END; written := true;
        ELSE NULL;
      END CASE;
      at := at + 1;
    END LOOP;
    IF held IS NULL AND (written OR fresh) THEN DELETE FROM kv WHERE k = key;
    ELSIF written THEN UPDATE kv SET v = head || held WHERE k = key;
    END IF;
  END LOOP;
END $$;

-- Puts sorted keys that are absent; returns their number.
CREATE FUNCTION bulk(
  slot_id uuid, slot_n bigint, base bigint,
  gates bigint[], gates_alone boolean[],
  equal_keys bytea[], equal_values bytea[], most_keys bytea[], most_values bytea[],
  lock_keys bytea[], lock_alone boolean[],
  same_keys bytea[], same_stamps bytea[],
  keys bytea[], payloads bytea[], payload bytea, overwrite boolean,
  put_keys bytea[], put_values bytea[], OUT stamp_ bigint, OUT placed bigint
) LANGUAGE plpgsql AS $$
DECLARE
  head bytea;
  bad bytea;
BEGIN
  stamp_ := base + pg_current_xact_id()::text::bigint;
  head := le(stamp_);
  IF gates IS NOT NULL THEN PERFORM take_gates(gates, gates_alone); END IF;
  IF slot_id IS NOT NULL THEN PERFORM advance(slot_id, slot_n, stamp_); END IF;
  IF lock_keys IS NOT NULL THEN PERFORM lock_rows(lock_keys, lock_alone); END IF;
  PERFORM check_fences(equal_keys, equal_values, most_keys, most_values);
  IF same_keys IS NOT NULL THEN
    SELECT u.k INTO bad FROM unnest(same_keys, same_stamps) u(k, s)
      LEFT JOIN kv USING (k) WHERE coalesce(substr(kv.v, 1, 8), '') <> u.s LIMIT 1;
    IF bad IS NOT NULL THEN PERFORM refuse('EX003', bad); END IF;
  END IF;
  IF overwrite THEN
    INSERT INTO kv SELECT u.k, head || coalesce(payload, u.p) FROM unnest(keys, payloads) u(k, p)
      ON CONFLICT (k) DO UPDATE SET v = excluded.v;
  ELSIF payload IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || payload FROM unnest(keys) u(k) ON CONFLICT (k) DO NOTHING;
  ELSE
    INSERT INTO kv SELECT u.k, head || u.p FROM unnest(keys, payloads) u(k, p)
      ON CONFLICT (k) DO NOTHING;
  END IF;
  GET DIAGNOSTICS placed = ROW_COUNT;
  IF put_keys IS NOT NULL THEN
    INSERT INTO kv SELECT u.k, head || u.p FROM unnest(put_keys, put_values) u(k, p) ORDER BY 1
      ON CONFLICT (k) DO UPDATE SET v = excluded.v;
  END IF;
END $$;

-- The outcome of a slot's commit: n and stamp of its last one. Prevents later commits in it.
CREATE FUNCTION close_slot(slot_id uuid, OUT last bigint, OUT stamp_ bigint) LANGUAGE sql AS $$
  UPDATE slot SET closed = true WHERE id = slot_id RETURNING n, stamp
$$;

-- What differs between the dialects, one macro for each difference, with the reason beside it. `{name(arguments)}` stands for a macro; the
-- last parameter takes all further arguments, as a list. A dialect that a macro does not name gets an empty text.
-- Where the whole form of a statement differs, the forms stand beside each other in the file of its topic.

-- ---------------------------------------------------------------- constants (a test compares them with those of Rust)

-- macro: never_ms
-- `NEVER` in milliseconds since 1970.
253402214400000

-- macro: crash_loop
-- `CRASH_LOOP`: so many crashes in a row put a notice into the slow queue.
2

-- macro: large_param
-- `LARGE_PARAM`: parameters above so many bytes are read apart.
262144

-- ---------------------------------------------------------------- times

-- macro: now
-- The current time of a statement: the test clock, else the database's clock.
coalesce({epoch_time(:clock)}, {database_now})

-- macro: database_now
-- postgres:
-- `now()` is the start of the transaction, so a delay would count from there. `clock_timestamp()` is volatile: no index could be searched with it.
statement_timestamp()
-- mysql:
-- `CURRENT_TIMESTAMP` is in the session's time zone.
UTC_TIMESTAMP(6)
-- sqlite:
strftime('%Y-%m-%d %H:%M:%f', 'now')

-- macro: epoch_time(ms)
-- Milliseconds since 1970 as a stored time.
-- postgres:
('epoch'::timestamptz + {ms}::bigint * interval '1 millisecond')
-- mysql:
TIMESTAMPADD(MICROSECOND, {ms} * 1000, TIMESTAMP'1970-01-01 00:00:00')
-- sqlite:
strftime('%Y-%m-%d %H:%M:%f', {ms} / 1000.0, 'unixepoch')

-- macro: epoch(time)
-- A stored time as milliseconds since 1970, so that no driver's time type is needed. It fails for no time that can be stored; a time that
-- MySQL (`0000-00-00`) or SQLite (any text) cannot read is null.
-- postgres:
-- An infinite time has no number: it becomes the year 1970 or NEVER. (`extract` computes slowly, with decimals.)
CASE WHEN isfinite({time}) THEN (date_part('epoch', {time}) * 1000)::bigint
WHEN {time} < 'epoch'::timestamptz THEN 0 WHEN {time} > 'epoch'::timestamptz THEN {never_ms} END
-- mysql:
TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {time}) DIV 1000
-- sqlite:
CAST(round(unixepoch({time}, 'subsec') * 1000) AS integer)

-- macro: moment(time)
-- A stored time as `Dialect::moment` reads it. On Postgres it is unchanged, because the server would have to compute a number for each
-- row of a claim.
-- postgres:
{time}
-- mysql, sqlite:
{epoch({time})}

-- macro: epoch_down(time)
-- As `epoch`, rounded down to milliseconds. SQLite's times have no microseconds, and the division of MySQL's `epoch` rounds down.
-- postgres:
{epoch(date_trunc('milliseconds', {time}))}
-- mysql, sqlite:
{epoch({time})}

-- macro: epoch_up(time)
-- As `epoch`, rounded up to milliseconds.
-- postgres:
{epoch(date_trunc('milliseconds', {time} + interval '999 microseconds'))}
-- mysql:
{epoch(({time} + INTERVAL 999 MICROSECOND))}
-- sqlite:
{epoch({time})}

-- macro: plus(time, ms)
-- `time` plus `ms` milliseconds.
-- postgres:
({time} + {ms} * interval '1 millisecond')
-- mysql:
TIMESTAMPADD(MICROSECOND, {ms} * 1000, {time})
-- sqlite:
strftime('%Y-%m-%d %H:%M:%f', {time}, printf('%+.3f seconds', ({ms}) / 1000.0))

-- ---------------------------------------------------------------- values

-- macro: to_json(value)
-- A parameter or column as the value of a JSON column. Postgres needs the cast; the others store JSON as text.
-- postgres:
{value}::json
-- mysql, sqlite:
{value}

-- ---------------------------------------------------------------- locks

-- macro: lock
-- Locks the rows of `m` and skips rows that other sessions lock. SQLite has one writer, so it needs no row locks. Postgres and MySQL need
-- `OF`, because rows of a function or of a JSON table cannot be locked. MariaDB does not know `OF` and skips the comment, which only MySQL
-- reads.
-- postgres:
 FOR UPDATE OF m SKIP LOCKED
-- mysql:
 FOR UPDATE /*!80000 OF m */ SKIP LOCKED

-- macro: lock_wait
-- Locks one row. Waits for other sessions.
-- postgres, mysql:
 FOR UPDATE

-- macro: lock_if_free
-- Locks one row, or returns none where another session has locked it.
-- postgres, mysql:
 FOR UPDATE SKIP LOCKED

-- macro: wait_briefly
-- A condition that is always true. On Postgres it limits the statement's wait for locks to 20 ms: then the statement fails with a conflict
-- and has changed nothing. It is no session setting, because behind a pooler other clients share the session.
-- postgres:
(SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL
-- mysql, sqlite:
true

-- ---------------------------------------------------------------- batches: one argument holds a JSON array of objects, so that the text is constant

-- macro: batch(json, columns)
-- A batch as the table `b`. Its columns are `{int(name)}` and `{key(name)}`.
-- postgres:
json_to_recordset({json}::json) AS b({columns})
-- mysql:
JSON_TABLE({json}, '$[*]' COLUMNS ({columns})) AS b
-- sqlite:
(SELECT {columns} FROM json_each({json})) AS b

-- macro: int(name)
-- postgres:
{name} bigint
-- mysql:
{name} bigint PATH '$.{name}'
-- sqlite:
value ->> '{name}' AS {name}

-- macro: key(name)
-- A name or a key: compared byte by byte.
-- postgres:
{name} text
-- mysql:
-- The tables' collation; otherwise the comparison would follow the rules of neither side.
{name} varchar(200) CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ PATH '$.{name}'
-- sqlite:
value ->> '{name}' AS {name}

-- macro: batch_rows(batch, table, condition)
-- A FROM and a WHERE: the rows `m` of a table whose ids are in a batch and that meet a condition.
{rows_by({batch}, {table}, PRIMARY, m.id = b.notice_id, {condition})}

-- macro: lock_batch_rows(batch, table, condition)
-- As `batch_rows`, with a lock that skips rows of other sessions.
{lock_rows_by({batch}, {table}, PRIMARY, m.id = b.notice_id, {condition})}

-- macro: rows_by(batch, table, index, on, condition)
-- As `batch_rows`, by another index than the primary key's, and the condition that it serves.
-- postgres:
-- The planner reads the batch first, because it cannot flatten a subquery that has OFFSET.
FROM {batch} CROSS JOIN LATERAL (SELECT m.* FROM {table} m WHERE {on} AND {condition} OFFSET 0) AS m
-- mysql, sqlite:
FROM {join_by({batch}, {table}, {index}, {on})} WHERE {condition}

-- macro: lock_rows_by(batch, table, index, on, condition)
-- As `rows_by`, with a lock that skips rows of other sessions. Nor does Postgres flatten a subquery that has a lock.
-- postgres:
FROM {batch} CROSS JOIN LATERAL (SELECT m.* FROM {table} m WHERE {on} AND {condition}{lock}) AS m
-- mysql, sqlite:
FROM {join_by({batch}, {table}, {index}, {on})} WHERE {condition}{lock}

-- macro: join_by(batch, table, index, on)
-- Joins `m` to a batch and reads the batch first. MySQL's optimizer must not choose the other order, nor scan a small table row by row:
-- it would lock rows that are not in the batch, and wait for them.
{batch} {join_in_order} {table} m{by_index({index})} ON {on}

-- macro: join_in_order
-- A join whose left side is read first, where the optimizer needs a hint.
-- postgres:
JOIN
-- mysql:
STRAIGHT_JOIN
-- sqlite:
CROSS JOIN

-- macro: batch_update(batch, table, set, and)
-- Updates the rows of a table that are in a batch. `set` names the table's columns without an alias.
-- postgres, sqlite:
UPDATE {table} AS m SET {set} FROM {batch} WHERE m.id = b.notice_id AND {id_in(m.id, SELECT b.notice_id FROM {batch})} {and}
-- mysql:
UPDATE {join_by({batch}, {table}, PRIMARY, m.id = b.notice_id)} SET {set} WHERE true {and}

-- ---------------------------------------------------------------- lists: one argument of the type `ids`

-- macro: listed(column, ids)
-- The condition that a number is in a list. On MySQL the list is in the text: with a JSON table an update reads its rows twice, and
-- reading it was a seventh of the server's cost for a sweeper.
-- postgres:
{column} = ANY ({ids}::text::bigint[])
-- mysql:
{column} IN ({ids})
-- sqlite:
{column} IN (SELECT value FROM json_each({ids}))

-- macro: listed_rows(ids, table, condition)
-- A FROM and a WHERE: the rows `m` of a table whose ids are listed and that meet a condition.
FROM {table} AS m{by_index(PRIMARY)} WHERE {listed(m.id, {ids})} AND {condition}

-- macro: id_in(id, query)
-- The condition that an id is in the result of a query, written so that Postgres searches its index for each id.
-- postgres:
{id} = ANY (ARRAY({query}))
-- mysql, sqlite:
{id} IN ({query})

-- ---------------------------------------------------------------- indexes

-- macro: by_index(name)
-- Reads a table by one index. MySQL's optimizer must not choose: with the statistics of a table that fills and empties it would read a
-- whole queue slice for one notice of a key, or the whole index of prepared statements.
-- mysql:
 FORCE INDEX ({name})

-- macro: from_mark(mark)
-- Starts the search for due notices at a mark (`marks.rs`; null: at the start). Only on Postgres do index entries of deleted rows remain
-- while a transaction is open anywhere, so that a look steps over them.
-- postgres:
 AND m.next_call_time >= coalesce({epoch_time({mark})}, '-infinity')

-- macro: order_of_slice
-- The order of the queue slice's index, for a look at one slice. MySQL needs all its columns: ordered by the time alone, it reads and
-- sorts the whole slice where the statistics show a small table (42,819 entries for 2 slices of 100,000 notices).
-- postgres, sqlite:
m.next_call_time
-- mysql:
m.def_id, m.status, m.next_call_time

-- ---------------------------------------------------------------- ordering keys

-- macro: place
-- The sort order of the notices `o` of an ordering key: the one under way, then by id.
-- postgres, sqlite:
(CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)
-- mysql:
-- MySQL allows no generated column of an id, so one index has the order and another one the notice under way.
o.id

-- macro: order_of_key
-- The order of the key's index, for a look at one key. MySQL needs all its columns, as in `order_of_slice`.
-- postgres, sqlite:
{place}
-- mysql:
o.def_id, o.ordering_key, o.id

-- macro: its_turn
-- True where no notice of `m`'s ordering key is before it or under way. Two claims at the same moment may both find that; a unique index
-- lets only one of them succeed.
-- postgres, sqlite:
(m.ordering_key IS NULL OR {none_of_its_key(, {place} < m.id)})
-- mysql:
(m.ordering_key IS NULL OR {none_of_its_key(notify_msg_order, o.id < m.id)} AND {none_of_its_key(notify_msg_under_way, o.under_way = m.ordering_key)})

-- macro: none_of_its_key(index, which)
NOT EXISTS (SELECT 1 FROM notify_msg o{by_index({index})} WHERE o.def_id = m.def_id AND o.ordering_key = m.ordering_key AND {which})

-- macro: first_of_keys(owner, batch)
-- The first notice of each ordering key of a batch, as `b.notice_id`: one index search each. `owner` is the definition.
(SELECT (SELECT o.id FROM notify_msg o{by_index(notify_msg_order)} WHERE o.def_id = {owner} AND o.ordering_key = b.own_key
ORDER BY {order_of_key} LIMIT 1) AS notice_id FROM {batch}) AS b

-- Accounts and roles of the notice tables, each with the rights of one task, for MySQL and MariaDB. Run it in the database of the tables,
-- after each migration, as an administrator. It may run again at any time. The producer's rights suffice on MySQL 8.0.22 and newer.
--
-- Accounts and roles belong to the server: one with these names has its rights in every database where this script has run. For a
-- database of its own accounts, replace the five names in this script. In the owner's rights a `_` in the name of the database stands for
-- any letter, as everywhere in MySQL.
--
--     notify_owner     migrates: all rights to tables and routines of this database
--     notify_producer  adds notices, and marks idempotency keys of an inbox
--     notify_sweeper   sends, and carries out the verbs of operators; it cannot change the schema
--     notify_editor    edits definitions, and reads no notice
--     notify_reader    reads everything, parameters included; a report needs SELECT on the three views alone
--
-- The owner is an account, because a view has the rights of the account that created it, without those of its roles. The first two
-- statements create it. On MySQL run them before the first migration, and migrate as this account from then on: only an
-- administrator may replace a view or a procedure that an administrator has created. It is locked until it has a password:
--     ALTER USER notify_owner IDENTIFIED BY '…' ACCOUNT UNLOCK;
--
-- The others are roles. Give one to an account:
--     CREATE USER shop IDENTIFIED BY '…';
--     GRANT notify_producer TO shop;
--     SET DEFAULT ROLE notify_producer TO shop;    -- on MariaDB: … FOR shop
CREATE USER IF NOT EXISTS notify_owner ACCOUNT LOCK;
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW,
    CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON * TO notify_owner;

CREATE ROLE IF NOT EXISTS notify_producer;
CREATE ROLE IF NOT EXISTS notify_sweeper;
CREATE ROLE IF NOT EXISTS notify_editor;
CREATE ROLE IF NOT EXISTS notify_reader;

GRANT SELECT ON notify_def TO notify_producer;
-- By column, and not the id: with the id of an ended bulk act a notice would have the authority of that act.
GRANT SELECT,
    INSERT (def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag, max_tries, expires_at,
            create_time, next_call_time)
    ON notify_msg TO notify_producer;
GRANT SELECT, INSERT ON notify_inbox TO notify_producer;
GRANT EXECUTE ON PROCEDURE notify_add TO notify_producer;
GRANT EXECUTE ON PROCEDURE notify_add_with TO notify_producer;

GRANT SELECT ON notify_schema TO notify_sweeper;
GRANT SELECT ON notify_pending TO notify_sweeper;
GRANT SELECT ON notify_done TO notify_sweeper;
GRANT SELECT ON notify_error TO notify_sweeper;
GRANT SELECT, INSERT ON notify_audit TO notify_sweeper;
GRANT EXECUTE ON PROCEDURE notify_add TO notify_sweeper;
GRANT EXECUTE ON PROCEDURE notify_add_with TO notify_sweeper;
GRANT EXECUTE ON PROCEDURE notify_ack TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_alert TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_authority TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_count TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_def TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_def_version TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_inbox TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_limit TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_msg TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_msg_history TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_node TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_passing TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_series TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON notify_switch TO notify_sweeper;

GRANT SELECT, INSERT, UPDATE ON notify_def TO notify_editor;
GRANT SELECT, INSERT ON notify_def_version TO notify_editor;
-- Not the id: one that is taken in advance stops the next entry, and with it each verb.
GRANT INSERT (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id) ON notify_audit TO notify_editor;
GRANT SELECT ON notify_node TO notify_editor;
GRANT SELECT ON notify_schema TO notify_editor;
GRANT SELECT ON notify_switch TO notify_editor;

GRANT SELECT ON notify_alert TO notify_reader;
GRANT SELECT ON notify_audit TO notify_reader;
GRANT SELECT ON notify_authority TO notify_reader;
GRANT SELECT ON notify_count TO notify_reader;
GRANT SELECT ON notify_def TO notify_reader;
GRANT SELECT ON notify_def_version TO notify_reader;
GRANT SELECT ON notify_inbox TO notify_reader;
GRANT SELECT ON notify_limit TO notify_reader;
GRANT SELECT ON notify_msg TO notify_reader;
GRANT SELECT ON notify_msg_history TO notify_reader;
GRANT SELECT ON notify_node TO notify_reader;
GRANT SELECT ON notify_passing TO notify_reader;
GRANT SELECT ON notify_schema TO notify_reader;
GRANT SELECT ON notify_series TO notify_reader;
GRANT SELECT ON notify_switch TO notify_reader;
GRANT SELECT ON notify_pending TO notify_reader;
GRANT SELECT ON notify_done TO notify_reader;
GRANT SELECT ON notify_error TO notify_reader;

-- Books an order in PostgreSQL by psql. The trigger of trigger.sql adds its notice.
--
--     psql --no-psqlrc --set id=7 --set item="7 wheels" --set end=commit --file insert.sql postgresql://app@db.example/shop
--
-- `rollback` in place of `commit` leaves neither. An error is printed with psql's exit code for scripts, 3, and leaves neither.

\set ON_ERROR_STOP on
BEGIN;
INSERT INTO orders (id, item) VALUES (:'id', :'item');
:end;

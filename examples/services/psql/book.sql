-- Books an order in PostgreSQL and adds its notice, in one transaction, by psql.
--
--     psql --no-psqlrc --set id=7 --set item="7 wheels" --set end=commit --file book.sql postgresql://app@db.example/shop
--
-- `rollback` in place of `commit` leaves neither. An error is printed with psql's exit code for scripts, 3, and leaves neither.
-- Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`.
-- The account needs INSERT and SELECT on `orders`, and what the section "Accounts" of the book lists.
--
-- The chapter "Any language" of the book shows a region of this file.

-- [book]
\set ON_ERROR_STOP on
BEGIN;
INSERT INTO orders (id, item) VALUES (:'id', :'item');
SELECT notify_add('order_booked', json_build_object('id', id, 'item', item)) FROM orders WHERE id = :'id';
:end;
-- [end]

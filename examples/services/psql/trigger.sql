-- A trigger of PostgreSQL that adds a notice for each order, in the transaction that books it. The services stay as they are.
--
--     psql --no-psqlrc --file trigger.sql postgresql://owner@db.example/shop
--
-- Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`.
-- The account owns `orders` and may create functions. Accounts that insert orders need what the section "Accounts" of the book lists.
--
-- The chapter "Any language" of the book shows a region of this file.

\set ON_ERROR_STOP on
-- [trigger]
CREATE FUNCTION order_booked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM notify_add('order_booked', to_json(NEW));
    RETURN NULL;
END $$;
CREATE TRIGGER order_booked AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_booked();
-- [end]

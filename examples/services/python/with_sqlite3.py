"""Books an order in SQLite and adds its notice, in one transaction. The driver is Python's own, `sqlite3`.

    DATABASE_URL=shop.db python3 with_sqlite3.py 7 "7 wheels" commit

`rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id integer PRIMARY KEY, item text)`,
and the right to write to the file and to its folder.

The chapter "Any language" of the book shows a region of this file.
"""

import os
import sys

# [book]
import json
import sqlite3


def book(db, order_id, item):
    """Books an order and adds its notice, in the caller's transaction."""
    db.execute("INSERT INTO orders (id, item) VALUES (?, ?)", (order_id, item))
    order = json.dumps({"id": order_id, "item": item})
    db.execute("INSERT INTO notify_add (name, param) VALUES ('order_booked', ?)", (order,))


def run(file, order_id, item, end):
    db = sqlite3.connect(file, timeout=10, isolation_level=None)  # no BEGIN but ours
    try:
        db.execute("BEGIN IMMEDIATE")
        book(db, order_id, item)
        db.execute("COMMIT" if end == "commit" else "ROLLBACK")
    finally:
        db.close()  # after an exception SQLite rolls back
# [end]


if __name__ == "__main__":
    run(os.environ["DATABASE_URL"], int(sys.argv[1]), sys.argv[2], sys.argv[3])

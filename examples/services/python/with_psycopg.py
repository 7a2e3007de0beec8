"""Books an order in PostgreSQL and adds its notice, in one transaction. The driver is psycopg 3.

    pip install --require-hashes --only-binary :all: -r requirements.txt
    DATABASE_URL=postgresql://app@db.example/shop python3 with_psycopg.py 7 "7 wheels" commit

`rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`.
The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.

The chapter "Any language" of the book shows a region of this file.
"""

import os
import sys

# [book]
import json

import psycopg


def book(db, order_id, item):
    """Books an order and adds its notice, in the caller's transaction."""
    db.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (order_id, item))
    order = json.dumps({"id": order_id, "item": item})
    db.execute("SELECT notify_add('order_booked', %s)", (order,))


def run(url, order_id, item, end):
    with psycopg.connect(url) as db:  # the first statement begins a transaction; an exception rolls it back
        book(db, order_id, item)
        if end == "commit":
            db.commit()
        else:
            db.rollback()
# [end]


if __name__ == "__main__":
    run(os.environ["DATABASE_URL"], int(sys.argv[1]), sys.argv[2], sys.argv[3])

"""Books an order in MySQL or MariaDB and adds its notice, in one transaction. The driver is PyMySQL.

    pip install --require-hashes --only-binary :all: -r requirements.txt
    DATABASE_URL=mysql://app@db.example:3306/shop python3 with_pymysql.py 7 "7 wheels" commit

`rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table
`orders (id bigint PRIMARY KEY, item text) CHARACTER SET utf8mb4` whose engine is InnoDB.
The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.
An account of MySQL that has a password needs TLS, or the package `cryptography` beside PyMySQL.

The chapter "Any language" of the book shows a region of this file.
"""

import os
import sys
from urllib.parse import unquote, urlsplit

# [book]
import json

import pymysql


def book(db, order_id, item):
    """Books an order and adds its notice, in the caller's transaction."""
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (order_id, item))
        order = json.dumps({"id": order_id, "item": item})
        cursor.execute("CALL notify_add('order_booked', %s)", (order,))


def run(settings, order_id, item, end):
    db = pymysql.connect(**settings, charset="utf8mb4")  # autocommit is off
    try:
        book(db, order_id, item)
        if end == "commit":
            db.commit()
        else:
            db.rollback()
    finally:
        db.close()  # after an exception the server rolls back
# [end]


def settings_of(url):
    """Returns what a URL says, as PyMySQL wants it."""
    url = urlsplit(url)
    user, password = unquote(url.username or ""), unquote(url.password or "")
    return {"host": url.hostname, "port": url.port or 3306, "user": user, "password": password, "database": url.path[1:]}


if __name__ == "__main__":
    run(settings_of(os.environ["DATABASE_URL"]), int(sys.argv[1]), sys.argv[2], sys.argv[3])

// Books an order in MySQL or MariaDB and adds its notice, in one transaction. The driver is mysql2.
//
//     npm ci
//     DATABASE_URL=mysql://app@db.example:3306/shop node with_mysql2.js 7 "7 wheels" commit
//
// `rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
// Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table
// `orders (id bigint PRIMARY KEY, item text) CHARACTER SET utf8mb4` whose engine is InnoDB.
// The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.
//
// The chapter "Any language" of the book shows a region of this file.

// [book]
const mysql = require("mysql2/promise");

/** Books an order and adds its notice, in the caller's transaction. */
async function book(db, id, item) {
  await db.execute("INSERT INTO orders (id, item) VALUES (?, ?)", [id, item]);
  await db.execute("CALL notify_add('order_booked', ?)", [JSON.stringify({ id, item })]);
}

async function run(url, id, item, end) {
  const db = await mysql.createConnection(url); // of a pool: one connection for the whole transaction
  try {
    await db.beginTransaction();
    await book(db, id, item);
    await (end === "commit" ? db.commit() : db.rollback());
  } finally {
    await db.end(); // after an exception the server rolls back
  }
}
// [end]

const [id, item, end] = process.argv.slice(2);
run(process.env.DATABASE_URL, Number(id), item, end); // Node.js prints an error and exits with 1

// Books an order in PostgreSQL and adds its notice, in one transaction. The driver is pg.
//
//     npm ci
//     DATABASE_URL=postgresql://app@db.example/shop node with_pg.js 7 "7 wheels" commit
//
// `rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
// Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`.
// The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.
//
// The chapter "Any language" of the book shows a region of this file.

// [book]
const { Client } = require("pg");

/** Books an order and adds its notice, in the caller's transaction. */
async function book(db, id, item) {
  await db.query("INSERT INTO orders (id, item) VALUES ($1, $2)", [id, item]);
  await db.query("SELECT notify_add('order_booked', $1)", [JSON.stringify({ id, item })]);
}

async function run(connectionString, id, item, end) {
  const db = new Client({ connectionString }); // of a pool: one client for the whole transaction
  await db.connect();
  try {
    await db.query("BEGIN");
    await book(db, id, item);
    await db.query(end === "commit" ? "COMMIT" : "ROLLBACK");
  } finally {
    await db.end(); // after an exception the server rolls back
  }
}
// [end]

const [id, item, end] = process.argv.slice(2);
run(process.env.DATABASE_URL, Number(id), item, end); // Node.js prints an error and exits with 1

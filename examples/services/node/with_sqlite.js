// Books an order in SQLite and adds its notice, in one transaction. The driver is @photostructure/sqlite, which has the API of
// `node:sqlite`, and needs neither a compiler nor a newer Node.js.
//
//     npm ci
//     DATABASE_URL=shop.db node with_sqlite.js 7 "7 wheels" commit
//
// `rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
// Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id integer PRIMARY KEY, item text)`,
// and the right to write to the file and to its folder.
//
// The chapter "Any language" of the book shows a region of this file.

// [book]
const { DatabaseSync } = require("@photostructure/sqlite");

/** Books an order and adds its notice, in the caller's transaction. */
function book(db, id, item) {
  db.prepare("INSERT INTO orders (id, item) VALUES (?, ?)").run(id, item);
  const add = db.prepare("INSERT INTO notify_add (name, param) VALUES ('order_booked', ?)");
  add.run(JSON.stringify({ id, item }));
}

function run(file, id, item, end) {
  const db = new DatabaseSync(file, { timeout: 10_000 });
  try {
    db.exec("BEGIN IMMEDIATE"); // no await until the end, so one transaction at a time
    book(db, id, item);
    db.exec(end === "commit" ? "COMMIT" : "ROLLBACK");
  } finally {
    db.close(); // after an exception SQLite rolls back
  }
}
// [end]

const [id, item, end] = process.argv.slice(2);
run(process.env.DATABASE_URL, Number(id), item, end); // Node.js prints an error and exits with 1

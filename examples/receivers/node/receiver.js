// A receiver of Standard Webhooks: it verifies a message, does its work once, and acks.
//
//     npm ci
//     WEBHOOK_SECRET=whsec_... DATABASE=shop.db ACK_URL=https://sender.example/notices PORT=8080 node receiver.js
//
// The chapter "Receivers" of the book shows a region of this file.

const http = require("node:http");
// [receive]
const { Database } = require("node-sqlite3-wasm");
const { Webhook } = require("standardwebhooks");

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const db = new Database(process.env.DATABASE);

/** Does the work of a message. Returns the status of the response. */
async function receive(headers, body) {
  let item;
  try {
    ({ item } = webhook.verify(body, headers)); // checks the signature and the time
  } catch {
    return 400; // the sender does not repeat it
  }
  if (typeof item !== "string") return 400;
  db.exec("BEGIN IMMEDIATE"); // no await until the end, so one message at a time
  try {
    const mark = "INSERT INTO inbox (webhook_id) VALUES (?) ON CONFLICT DO NOTHING";
    if (db.run(mark, headers["webhook-id"]).changes === 1) {
      db.run("INSERT INTO orders (item) VALUES (?)", item);
    }
    db.exec("COMMIT"); // the mark and the work, or neither
  } catch (error) {
    db.exec("ROLLBACK");
    throw error; // becomes a 500, and the sender repeats the message
  }
  if (headers["ack-token"]) {
    await ack(headers["ack-token"]); // of a repeated message, too: the first ack may be lost
  }
  return 204;
}

/** Acks a message. An error becomes a 500, and the sender repeats the message. */
async function ack(token) {
  const request = { method: "POST", headers: { "ack-token": token }, signal: AbortSignal.timeout(10_000) };
  const response = await fetch(`${process.env.ACK_URL}/ack`, request);
  if (!response.ok) throw new Error(`the ack was answered with ${response.status}`);
}
// [end]

/** Reads a body of limited size. */
async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > 1024 * 1024) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function serve(request, response) {
  try {
    const body = request.method === "POST" ? await read(request) : undefined;
    response.statusCode = body === undefined ? (request.method === "POST" ? 413 : 405) : await receive(request.headers, body);
  } catch (error) {
    console.log(`cannot receive a message: ${error.message}`);
    response.statusCode = 500;
  }
  response.end();
}

db.exec("CREATE TABLE IF NOT EXISTS inbox (webhook_id text PRIMARY KEY)");
db.exec("CREATE TABLE IF NOT EXISTS orders (item text)");
const server = http.createServer({ requestTimeout: 10_000 }, serve);
server.listen(Number(process.env.PORT), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

"""A receiver of Standard Webhooks: it verifies a message, does its work once, and acks.

    pip install --require-hashes --only-binary :all: -r requirements.txt
    WEBHOOK_SECRET=whsec_... DATABASE=shop.db ACK_URL=https://sender.example/notices PORT=8080 python3 receiver.py

The chapter "Receivers" of the book shows a region of this file.
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# [receive]
import sqlite3
import urllib.request

from standardwebhooks import Webhook, WebhookVerificationError

WEBHOOK = Webhook(os.environ["WEBHOOK_SECRET"])


def receive(headers, body):
    """Does the work of a message. Returns the status of the response."""
    try:
        item = str(WEBHOOK.verify(body, dict(headers.items()))["item"])  # checks the signature and the time
    except (WebhookVerificationError, ValueError, LookupError, TypeError):
        return 400  # the sender does not repeat it
    db = sqlite3.connect(os.environ["DATABASE"], timeout=10)
    try:
        with db:  # one transaction: the mark and the work, or neither
            mark = "INSERT INTO inbox (webhook_id) VALUES (?) ON CONFLICT DO NOTHING"
            if db.execute(mark, (headers["webhook-id"],)).rowcount == 1:
                db.execute("INSERT INTO orders (item) VALUES (?)", (item,))
    finally:
        db.close()
    if "ack-token" in headers:
        ack(headers["ack-token"])  # of a repeated message, too: the first ack may be lost
    return 204


def ack(token):
    """Acks a message. An error becomes a 500, and the sender repeats the message."""
    request = urllib.request.Request(os.environ["ACK_URL"] + "/ack", method="POST", headers={"ack-token": token})
    urllib.request.urlopen(request, timeout=10).close()
# [end]


class Handler(BaseHTTPRequestHandler):
    """Reads requests and writes responses."""

    timeout = 10
    most_bytes = 1024 * 1024

    def do_POST(self):
        try:
            length = int(self.headers.get("content-length", ""))
            status = 413 if length > self.most_bytes else receive(self.headers, self.rfile.read(max(length, 0)))
        except ValueError:
            status = 411
        except Exception as error:  # not the message: it has the token
            print(f"cannot receive a message: {type(error).__name__}", flush=True)
            status = 500
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    db = sqlite3.connect(os.environ["DATABASE"])
    db.execute("CREATE TABLE IF NOT EXISTS inbox (webhook_id text PRIMARY KEY)")
    db.execute("CREATE TABLE IF NOT EXISTS orders (item text)")
    db.close()
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

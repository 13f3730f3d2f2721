"""A web service that counts visits and needs only Python's standard library.

It listens on port 8000. It is healthy as soon as its database exists.
"""

import json
import sqlite3
from http.server import BaseHTTPRequestHandler, HTTPServer

database = sqlite3.connect("visits.db")
database.execute("CREATE TABLE IF NOT EXISTS visits (path TEXT)")


class Visits(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            return self.answer({"ok": True})
        with database:
            database.execute("INSERT INTO visits VALUES (?)", (self.path,))
        (count,) = database.execute("SELECT count(*) FROM visits WHERE path = ?", (self.path,)).fetchone()
        self.answer({"path": self.path, "visits": count})

    def answer(self, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("", 8000), Visits).serve_forever()

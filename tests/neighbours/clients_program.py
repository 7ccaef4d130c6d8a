"""Clients of aiohttp, httpx and SQLite in a system under test: run where they are installed (scripts/beside_neighbours.sh does)."""

import asyncio
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import httpx

from germane import aevaluate, evaluate

QUESTIONS = [{"id": name, "query": name, "qrels": {"d1": 1}} for name in ("a", "b", "c", "d", "e", "f")]


class Search(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b'["d1"]'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Search)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"


def right(report):
    assert (report["RR"].mean, report["RR"].n) == (1.0, len(QUESTIONS)), report


async def work():
    async with aiohttp.ClientSession() as session:

        async def search(query):
            async with session.get(url, params={"q": query}) as response:
                return [{"id": name} for name in await response.json()]

        right(await aevaluate(QUESTIONS, "RR", target=search))
        assert await search("again") == [{"id": "d1"}]
    async with httpx.AsyncClient() as client:

        async def find(query):
            return [{"id": name} for name in (await client.get(url, params={"q": query})).json()]

        assert await find("before") == [{"id": "d1"}]
        right(await aevaluate(QUESTIONS, "RR", target=find))
        right(await aevaluate(QUESTIONS, "RR", target=lambda query: find(query.strip()), workers=1))
        assert await find("again") == [{"id": "d1"}]


asyncio.run(work())
with httpx.Client() as client:
    right(
        evaluate(
            QUESTIONS,
            "RR",
            target=lambda q: [{"id": name} for name in client.get(url, params={"q": q}).json()],
        )
    )
documents = sqlite3.connect(":memory:")
documents.execute("create table documents(id text)")
documents.execute("insert into documents values('d1')")
found = evaluate(
    QUESTIONS,
    "RR",
    target=lambda _: [{"id": row[0]} for row in documents.execute("select id from documents")],
    workers=1,
)
right(found)
documents.close()

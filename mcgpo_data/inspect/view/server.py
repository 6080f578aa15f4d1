"""A small web server for one person on this machine: it listens on the loopback address alone, answers GET and HEAD
alone, and only when asked by that name, so that no page of another site can read through it.

    /                  filtered pairs, 50 a page
    /pair/PAIR_ID      one pair with its evidence: a permanent address
"""

from __future__ import annotations

import base64
import hashlib
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.inspect.page import render
from mcgpo_data.inspect.report.samples import pair_view
from mcgpo_data.inspect.view.index import SORTS, Filter, PairIndex
from mcgpo_data.store import Store

PAGE: Final = 50
HOST: Final = "127.0.0.1"
SCRIPT: Final = (
    'addEventListener("keydown",e=>{if(e.target.matches("input,select")||e.ctrlKey||e.metaKey||e.altKey)return;'
    'const to={j:"next",ArrowRight:"next",k:"prev",ArrowLeft:"prev",u:"up"}[e.key];'
    'const a=to&&document.querySelector(`a[rel="${to}"]`);if(a)location=a.href;'
    'if(e.key=="/"){const f=document.querySelector("[name=action]");if(f){e.preventDefault();f.focus()}}})'
)
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    f"script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)


class Viewer(ThreadingHTTPServer):
    """Serves the pairs of one build."""

    daemon_threads = True

    def __init__(self, store: Store, port: int) -> None:
        self.store = store
        self.index = PairIndex(store)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror or error}). Choose another with --port, or 0 for any."
            ) from error
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def url(self) -> str:
        """Where to look."""
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def list_page(self, query: dict[str, str]) -> str:
        """The page of filtered pairs."""
        chosen, start = Filter.from_query(query), _whole(query.get("from"))
        count, share = self.index.count(chosen)
        start = min(start, max(count - 1, 0)) // PAGE * PAGE
        last = max(count - 1, 0) // PAGE * PAGE
        rows = self.index.page(chosen, start, PAGE)
        for at, row in enumerate(rows, start):
            row["link"] = f"/pair/{row['pair_id']}?{chosen.query(at=at)}"
        moves = {"first": 0, "prev": start - PAGE, "next": start + PAGE, "last": last}
        links = {name: f"/?{chosen.query(**{'from': at})}" for name, at in moves.items() if 0 <= at <= last}
        return self._render(
            "view_list.html", chosen=chosen, rows=rows, start=start, count=count, share=share, links=links,
            rules=self.index.rules, sorts=SORTS, total=self.index.total, content_id=self.store.manifest["content_id"],
        )  # fmt: skip

    def pair_page(self, pair_id: str, query: dict[str, str]) -> str | None:
        """The page of one pair, with its neighbours under the filter; None: no such pair."""
        place = self.index.place(pair_id)
        if place is None:
            return None
        chosen = Filter.from_query(query)
        links = {"up": f"/?{chosen.query()}"}
        if "at" in query:
            at = _whole(query["at"])
            links["up"] = f"/?{chosen.query(**{'from': at})}"
            first = max(at - 1, 0)
            for number, row in enumerate(self.index.page(chosen, first, 3), first):
                if number != at:
                    name = "prev" if number < at else "next"
                    links.setdefault(name, f"/pair/{row['pair_id']}?{chosen.query(at=number)}")
        return self._render("view_pair.html", p=pair_view(self.store, *place), links=links)

    def _render(self, template: str, **values: Any) -> str:
        from markupsafe import Markup

        return "<!doctype html>\n" + render(template, script=Markup(SCRIPT), **values)  # noqa: S704  # our own


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Viewer
    server_version = "mcgpo"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with a page."""
        status, page = self._answer()
        body = page.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  # the name is that of the base class

    def _answer(self) -> tuple[HTTPStatus, str]:
        if self.headers.get("Host") not in self.server.names:
            return HTTPStatus.FORBIDDEN, f"This server answers to {self.server.url} only."
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        try:
            if address.path == "/":
                return HTTPStatus.OK, self.server.list_page(query)
            if address.path.startswith("/pair/"):
                page = self.server.pair_page(unquote(address.path.removeprefix("/pair/")), query)
                if page is not None:
                    return HTTPStatus.OK, page
        except McgpoError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, render("view_error.html", text=str(error))
        return HTTPStatus.NOT_FOUND, render("view_error.html", text="No such pair or page in this build.")

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's business."""


def _whole(text: str | None) -> int:
    """A count from an address; 0 where it is none."""
    return min(int(text), 10**12) if text is not None and text.isascii() and text.isdecimal() else 0

"""The viewer: right pairs, safe answers, one person on one machine."""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote

import polars as pl
import pytest

from mcgpo_data import Store, load_pairs
from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.view.index import SORTS, Filter, PairIndex
from mcgpo_data.inspect.view.server import PAGE, Viewer

from .hostile import hostile_store
from .test_report import Page, rebuilt

pytest.importorskip("jinja2")


def serve(store: Store) -> Iterator[Viewer]:
    with Viewer(store, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def viewer(demo: Store) -> Iterator[Viewer]:
    yield from serve(demo)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    yield from serve(hostile_store(tmp_path_factory.mktemp("hostile")))


def ask(
    viewer: Viewer, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", f"127.0.0.1:{viewer.server_port}" if host is None else host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def link(page: str, name: str) -> str | None:
    found = re.search(rf'rel="{name}" href="([^"]*)"', page)
    return html.unescape(found[1]) if found else None


@pytest.mark.parametrize("sort", SORTS)
def test_paging_shows_every_pair_once_in_the_order_asked_for(viewer: Viewer, demo: Store, sort: str) -> None:
    seen: list[str] = []
    path: str | None = f"/?sort={sort}"
    while path is not None:
        _, page, _ = ask(viewer, path)
        seen += re.findall(r'class="up" href="/pair/(\w+)', page)
        path = link(page, "next")
    pairs = load_pairs(demo)
    if sort != "order":
        pairs = pairs.sort(sort, "pair_id", descending=[True, False])
    assert seen == pairs["pair_id"].to_list()


@pytest.mark.parametrize(
    "chosen, kept",
    [
        (Filter(task="Courier-03"), pl.col("task_id") == "courier-03"),
        (Filter(rule="exact"), pl.lit(True)),
        (Filter(rule="coarse"), pl.lit(False)),
        (
            Filter(action="door"),
            pl.col("chosen_action").str.contains("door") | pl.col("rejected_action").str.contains("door"),
        ),
        (Filter(weight=0.1), pl.col("weight") >= 0.1),
        (Filter(support=2), pl.min_horizontal("chosen_support", "rejected_support") >= 2),
        (Filter(action="%"), pl.lit(False)),
        (Filter(task="' OR 1=1 --"), pl.lit(False)),
    ],
    ids=str,
)
def test_filters_keep_what_they_say(demo: Store, chosen: Filter, kept: pl.Expr) -> None:
    index, pairs = PairIndex(demo), load_pairs(demo)
    expected = pairs.filter(kept)
    count, share = index.count(chosen)
    assert count == len(expected)
    assert share == pytest.approx(expected["weight"].sum() / pairs["weight"].sum())
    assert {row["pair_id"] for row in index.page(chosen, 0, 10_000)} == set(expected["pair_id"])


def test_an_address_and_its_filter_are_the_same_thing() -> None:
    chosen = Filter(task="a&b", rule="ü", action="x=1", weight=0.25, support=3, sort="delta")
    assert Filter.from_query(dict(parse_qsl(chosen.query(at=7)))) == chosen
    assert Filter().query() == ""


@pytest.mark.parametrize(
    "query", [{"weight": "x"}, {"support": "1e9"}, {"sort": "drop"}, {"weight": "-3"}, {"x": "y"}]
)
def test_fields_that_cannot_be_understood_are_left_out(query: dict[str, str]) -> None:
    assert Filter.from_query(query) == Filter()


@pytest.mark.parametrize("start", ["-1", "x", "999999999999999999999", "٣"])
def test_a_page_that_is_not_there_is_the_nearest_one(viewer: Viewer, start: str) -> None:
    status, page, _ = ask(viewer, f"/?from={quote(start)}")
    assert status == 200
    assert "of 822" in page


def test_a_pair_has_a_permanent_address_with_its_evidence(viewer: Viewer, demo: Store) -> None:
    pair = load_pairs(demo).row(5, named=True)
    status, page, _ = ask(viewer, f"/pair/{pair['pair_id']}")
    assert status == 200
    assert page.count("judged by") == 2
    assert f"{pair['chosen_estimate']:.3f}" in page
    assert link(page, "next") is None


def test_neighbours_of_a_pair_follow_the_filter(viewer: Viewer, demo: Store) -> None:
    chosen = Filter(action="door", sort="support")
    expected = [row["pair_id"] for row in PairIndex(demo).page(chosen, 0, 4)]
    path = f"/pair/{expected[0]}?{chosen.query(at=0)}"
    assert link(ask(viewer, path)[1], "prev") is None
    walked = []
    for _ in range(3):
        path = link(ask(viewer, path)[1], "next") or ""
        walked.append(path.split("/")[2].split("?")[0])
    assert walked == expected[1:]
    for _ in range(3):
        path = link(ask(viewer, path)[1], "prev") or ""
    assert path.startswith(f"/pair/{expected[0]}?")


def test_the_list_link_leads_to_the_page_of_the_pair(viewer: Viewer, demo: Store) -> None:
    row = PairIndex(demo).page(Filter(), 3 * PAGE + 4, 1)[0]
    _, page, _ = ask(viewer, f"/pair/{row['pair_id']}?at={3 * PAGE + 4}")
    assert row["pair_id"] in ask(viewer, link(page, "up") or "")[1]


@pytest.mark.parametrize("path", ["/pair/0000", "/pair/", "/../../etc/passwd", "/pair/..%2f..%2fx", "/favicon.ico"])
def test_what_is_not_there_is_not_found(viewer: Viewer, path: str) -> None:
    status, page, _ = ask(viewer, path)
    assert status == 404
    assert "No such pair or page" in page


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1", "127.0.0.1.evil.example:80"])
def test_other_names_for_this_machine_are_refused(viewer: Viewer, host: str) -> None:
    status, page, _ = ask(viewer, "/", host=host)
    assert status == 403
    assert "courier" not in page


def test_the_name_localhost_is_answered(viewer: Viewer) -> None:
    assert ask(viewer, "/", host=f"localhost:{viewer.server_port}")[0] == 200


def test_only_this_machine_is_listened_to(viewer: Viewer) -> None:
    assert viewer.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(viewer: Viewer, method: str) -> None:
    assert ask(viewer, "/", method=method)[0] == 501


def test_head_answers_without_a_page(viewer: Viewer) -> None:
    status, page, headers = ask(viewer, "/", method="HEAD")
    assert (status, page) == (200, "")
    assert int(headers["Content-Length"]) > 1_000


@pytest.mark.parametrize("path", ["/", "/pair/{}"])
def test_the_policy_allows_our_script_alone(viewer: Viewer, demo: Store, path: str) -> None:
    _, page, headers = ask(viewer, path.format(load_pairs(demo)["pair_id"][0]))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = headers["Content-Security-Policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_text_of_the_log_and_of_the_address_is_inert(hostile: Viewer) -> None:
    _, page, _ = ask(hostile, "/?task=%22%3E%3Cscript%3Ealert(3)%3C%2Fscript%3E%E2%80%AE")
    assert Page(page).tags["script"] == 1
    _, page, _ = ask(hostile, "/")
    paths = ["/", html.unescape(re.findall(r'href="(/pair/[^"]*)"', page)[0])]
    for path in paths:
        _, page, _ = ask(hostile, path)
        found = Page(page)
        assert found.tags["script"] == 1
        assert not found.tags.keys() & {"img", "iframe"}
        assert not [name for name, _ in found.attributes if name.startswith("on")]
        assert not [c for c in page if not c.isprintable() and c not in "\n\t"]
        assert "<script>alert(1)</script>" in found.text


def test_a_damaged_build_is_an_error_page_and_the_server_goes_on(demo: Store, tmp_path: Path) -> None:
    store = rebuilt(demo, tmp_path / "out")
    for viewer in serve(store):
        row = viewer.index.page(Filter(), 0, 1)[0]
        for path in store.files("preferences"):
            path.write_bytes(b"PAR1 no more")
        status, page, _ = ask(viewer, f"/pair/{row['pair_id']}")
        assert status == 500
        assert "cannot be read" in page
        assert ask(viewer, "/")[0] == 200


def test_a_port_in_use_is_an_error_in_words(viewer: Viewer, demo: Store) -> None:
    with pytest.raises(UsageError, match="Choose another with --port"):
        Viewer(demo, viewer.server_port)


def test_a_build_without_pairs_has_a_list_that_says_so(demo: Store, tmp_path: Path) -> None:
    for viewer in serve(rebuilt(demo, tmp_path / "out", min_support=9)):
        assert "No pair fits" in ask(viewer, "/")[1]


def test_the_command_tells_the_address_and_ends_when_interrupted(demo: Store) -> None:
    command = [sys.executable, "-m", "mcgpo_data", "view", str(demo.path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        with urllib.request.urlopen(url) as answer:
            assert "822 preference pairs" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0

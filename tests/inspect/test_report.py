"""The report: complete, small, inert, the same every time, and possible for every kind of build."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data import BuildConfig, BuildOptions, Store, build_preferences, load_pairs, open_store
from mcgpo_data.build.from_decisions import build_from_decisions
from mcgpo_data.cli import cli, run
from mcgpo_data.credit.store import CreditOptions, credit_build
from mcgpo_data.errors import OutputError, UsageError
from mcgpo_data.inspect.page import _environment, inert, options, shorten
from mcgpo_data.inspect.report.content import make_content
from mcgpo_data.inspect.report.lengths import _characters, _text, pair_lengths
from mcgpo_data.inspect.report.losses import rule_stages
from mcgpo_data.inspect.report.samples import message_text, sample_rows
from mcgpo_data.inspect.report.spread import concentration
from mcgpo_data.inspect.report.write import MARK, report_html, write_report
from mcgpo_data.schema import MESSAGES

from .hostile import EVERY, hostile_store

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(demo: Store) -> str:
    return report_html(demo)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return hostile_store(tmp_path_factory.mktemp("hostile"))


def rebuilt(store: Store, out: Path, **changes: object) -> Store:
    build_preferences([store.path], out, BuildConfig(**changes), BuildOptions(workers=1))  # type: ignore[arg-type]
    return open_store(out)


def test_the_page_has_every_section_and_figure(page: str) -> None:
    ids = {value for name, value in Page(page).attributes if name == "id"}
    assert {"cautions", "funnel", "weight", "trust", "tasks", "lengths", "spread", "pairs", "source"} <= ids
    assert Page(page).tags["svg"] == 7
    links = {value[1:] for name, value in Page(page).attributes if name == "href" and not value.startswith("#m")}
    assert {link for link in links if len(link) < 12} <= ids


def test_the_page_is_small_and_loads_and_runs_nothing(page: str) -> None:
    assert len(page.encode()) < 500_000
    found = Page(page)
    assert not found.tags.keys() & {"script", "img", "link", "iframe", "object", "form", "input", "base"}
    assert all(value.startswith("#") for name, value in found.attributes if name in ("href", "src", "xlink:href"))
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_same_build_gives_the_same_page(demo: Store, page: str) -> None:
    assert report_html(demo) == page


def test_twenty_different_pairs_are_shown_with_their_evidence(demo: Store, page: str) -> None:
    shown = re.findall(r"pair <code>(\w{16})</code>", page)
    pairs = load_pairs(demo)
    assert len(set(shown)) == 20
    weights = dict(zip(pairs["pair_id"], pairs["weight"], strict=True))
    assert [weights[p] for p in shown] == sorted((weights[p] for p in shown), reverse=True)
    assert weights[shown[0]] == pairs["weight"].max()
    assert weights[shown[-1]] == pairs["weight"].min()
    assert page.count("judged by") == 40


def test_numbers_on_the_page_are_those_of_the_build(demo: Store, page: str) -> None:
    text = " ".join(Page(page).text.split())
    assert f"{len(load_pairs(demo)):,} preference pairs" in text
    assert "23 / 24 tasks with pairs" in text
    assert "5,533 records → 384 rollouts in 24 groups" in text


def test_text_of_the_log_is_inert_wherever_it_is_shown(hostile: Store) -> None:
    page = report_html(hostile)
    found = Page(page)
    assert not found.tags.keys() & {"script", "img", "b<", "iframe"}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not [c for c in page if not c.isprintable() and c not in "\n\t"]
    assert found.text.count("<script>alert(1)</script>") > 20
    assert "{{ 7 * 7 }} {% raw %} $\\frac{1}{0}$ &lt;b&gt; ]]> -->" in found.text
    assert "⟨U+202E⟩gnp.exe" in found.text


def test_the_path_of_a_log_is_inert(hostile: Store) -> None:
    assert "log <script>alert(1)<_script>.jsonl" in Page(report_html(hostile)).text


@pytest.mark.parametrize("text", ["plain", "日本語 עברית", "tab\tand\nline", "emoji 🙂"])
def test_harmless_text_is_left_alone(text: str) -> None:
    assert inert(text) == text


def test_every_character_that_cannot_be_seen_is_spelled_out() -> None:
    assert all(c.isprintable() or c in "\n\t" for c in inert(EVERY))
    assert inert("\u202e\x00\u00a0\r\n") == "⟨U+202E⟩⟨U+0000⟩  \n"


def test_options_in_our_words_are_set_apart_and_the_rest_is_escaped() -> None:
    assert options("use --min-support 2 <b>") == "use <code>--min-support</code> 2 &lt;b&gt;"


def test_long_text_is_cut_and_says_how_much_is_left_out() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefgh", 3) == "abc… [5 more characters]"
    assert shorten("abcdefgh", 3, end=True) == "[5 more characters] …fgh"


@pytest.mark.parametrize(
    "changes",
    [{"form": "thin"}, {"folds": 4}, {"orientation": "all-folds"}, {"scope": "task"}, {"weight": "posterior"}],
    ids=str,
)
def test_every_kind_of_build_has_a_report(demo: Store, tmp_path: Path, changes: dict[str, object]) -> None:
    text = Page(report_html(rebuilt(demo, tmp_path / "out", **changes))).text
    assert "preference pairs" in text
    ((name, value),) = changes.items()
    assert f"{name} = {value}" in text


def test_a_build_without_pairs_says_why(demo: Store, tmp_path: Path) -> None:
    store = rebuilt(demo, tmp_path / "out", min_support=9)
    text = " ".join(Page(report_html(store)).text.split())
    assert "0 preference pairs" in text
    assert "There are no pairs." in text


def test_a_build_from_a_decisions_table_has_a_report_without_what_it_lacks(tmp_path: Path) -> None:
    rows = [
        {"group_id": "g", "rollout_id": f"r{i}", "step": step, "rule": 0, "context": f"c{step * (i + 1)}",
         "action": f"{'ab'[i % 2]}{step * i}", "outcome": float(i % 2), "valid": True}
        for i in range(16) for step in range(2)
    ]  # fmt: skip
    table = tmp_path / "decisions.parquet"
    kinds = pa.schema([("step", pa.int32()), ("rule", pa.int16())])
    pq.write_table(pa.Table.from_pylist(rows).cast(_with(rows, kinds)), table)
    build_from_decisions(table, tmp_path / "out", BuildConfig(), BuildOptions(workers=1))
    store = open_store(tmp_path / "out")
    assert len(load_pairs(store))
    text = Page(report_html(store)).text
    assert "holds no rollouts" in text
    assert "Lengths" not in text


def _with(rows: list[dict[str, object]], kinds: pa.Schema) -> pa.Schema:
    found = pa.Table.from_pylist(rows).schema
    for field in kinds:
        found = found.set(found.get_field_index(field.name), field)
    return found


def test_advantages_of_a_build_are_covered(demo: Store, tmp_path: Path) -> None:
    store = rebuilt(demo, tmp_path / "out")
    assert not make_content(store).advantages
    credit_build(store.path, "grpo", how=CreditOptions(workers=1))
    credit_build(store.path, "gigpo", how=CreditOptions(workers=1))
    first, second = make_content(open_store(store.path)).advantages
    assert (first["name"], second["name"]) == ("gigpo", "grpo")
    assert first["all_steps"] == 5533
    assert first["with_step_signal"] > 0.1
    assert second["with_step_signal"] == 0
    assert "groups without any signal" in report_html(open_store(store.path))


def test_lengths_are_those_of_the_text(demo: Store) -> None:
    found = pair_lengths(demo, load_pairs(demo))
    assert found is not None
    full = load_pairs(demo, text=True)
    for side in ("chosen", "rejected"):
        assert found.pairs[f"{side}_prompt"].to_list() == [
            sum(len(m["content"]) for m in prompt) for prompt in full[f"{side}_prompt"]
        ]
        assert found.pairs[f"{side}_response"].to_list() == [len(r[0]["content"]) for r in full[f"{side}_response"]]
        assert found.pairs[f"{side}_text"].to_list() == [r[0]["content"][:300] for r in full[f"{side}_response"]]


def test_tool_calls_are_part_of_a_message() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    assert message_text({"content": None, "tool_calls": [call]}) == 'look({"at": 1})'
    assert message_text({"content": "so", "tool_calls": None}) == "so"
    size = len("look") + len('{"at": 1}')
    messages = [{"role": "assistant", "content": None, "name": None, "tool_call_id": None, "tool_calls": [call]}]
    array = pa.array([messages, [messages[0] | {"content": "ab", "tool_calls": None}]], MESSAGES).flatten()
    assert _characters(array).tolist() == [size, 2]
    assert _text(array).to_list() == ['look {"at": 1}', "ab"]


def test_samples_go_from_the_heaviest_to_the_lightest_and_never_repeat() -> None:
    weight = pl.Series([0.1, 0.9, 0.5, 0.7, 0.3])
    assert sample_rows(weight, 3) == [1, 2, 0]
    assert sample_rows(weight, 20) == [1, 3, 2, 4, 0]


def test_concentration_of_equal_shares_is_their_number() -> None:
    found = concentration("task", pl.Series(list("abcd")), pl.Series([1.0] * 4))
    assert found is not None
    assert (found.distinct, found.effective, found.first, found.ten, found.largest) == (4, 4.0, 0.25, 1.0, "a")
    one = concentration("task", pl.Series(list("aab")), pl.Series([2.0, 1.0, 1.0]))
    assert one is not None
    assert (one.first, round(one.effective, 6)) == (0.75, 1.6)
    assert concentration("task", pl.Series(["a"]), pl.Series([0.0])) is None


def test_what_a_stage_lost_and_what_is_left_make_the_stage_before(demo: Store) -> None:
    contexts, comparisons, pairs = rule_stages(demo.manifest["funnel"]["rules"]["exact"])
    for block in (contexts, comparisons):
        for before, after in itertools.pairwise(block):
            assert after.count + after.lost == before.count
            assert after.reason
    assert pairs[0].count == len(load_pairs(demo))


def test_the_report_lies_in_the_build_and_is_replaced_by_the_next(demo: Store, tmp_path: Path) -> None:
    store = rebuilt(demo, tmp_path / "out")
    assert write_report(store) == store.path / "report.html"
    first = (store.path / "report.html").read_bytes()
    assert write_report(store).read_bytes() == first
    assert first.startswith(MARK.encode())
    store.verify()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_nothing_but_a_report_is_replaced(demo: Store, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "mine.html"
    if kind == "file":
        target.write_text("<!doctype html><p>mine")
    else:
        target.mkdir()
    with pytest.raises(OutputError, match="not a report of ours"):
        write_report(demo, target)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.html"]


def test_a_folder_that_is_not_there_is_an_error_in_words(demo: Store, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write_report(demo, tmp_path / "no" / "report.html")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib.figure"])
def test_without_the_extra_the_error_says_what_to_install(
    demo: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    _environment.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=r"pip install 'mcgpo\[notebook\]'"):
        write_report(demo, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page_and_names_it(
    demo: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    target = tmp_path / "demo.html"
    monkeypatch.setattr(sys, "argv", ["mcgpo", "report", str(demo.path), "-o", str(target)])
    assert run(cli, "mcgpo") == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text(encoding="utf-8") == page

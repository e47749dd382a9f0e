"""Groups and curves in a notebook: what a model wrote stays text, the numbers are the line's, nothing is fetched."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from minigrpo import runfolder
from minigrpo.algo import advantage
from minigrpo.events import Ended, Evaluated, Started, Step, Warned
from minigrpo.rewards import scoring
from minigrpo.types import Completion, Example, Group, Span
from minigrpo.ui import still
from minigrpo.ui.live import Live, telling

POISON = [
    "<img src=x onerror='window.__xss=1'>", "<script>window.__xss=2</script>", "</style></div><svg onload=x>",
    "<a href='javascript:x'>x</a>", "\u202eRTL", "\x1b[31mred\x1b[0m", "\ud800 lone", "NUL \x00", "&lt;b&gt;",
    '" onx="1',
]  # fmt: skip
OURS = {"style", "div", "p", "b", "br", "span", "bdi", "svg", "rect", "line", "path", "circle", "text"}


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def line(texts: list[str], gold: Any = "32", question: str = "2, 4, 8, 16, …") -> dict[str, Any]:
    parts = scoring.build(["number()"])
    made = [Completion([7], text, [Span("answer", 0, 1)], "stop", [0.0]) for text in texts]
    (group,), _ = scoring.score([Group("g", Example("e", question, gold), [1], made, 8)], parts)
    return runfolder.group_line(1, group, advantage.group_norm(group), [[0.1]] * len(texts), True, parts)


def test_a_group_shows_its_numbers() -> None:
    page = Page(still.group_html(line(["32", "18", "32"])))
    for piece in ("2, 4, 8, 16, …", "Gold answer", "32", "18", "+0.58", "−1.15", "reward 1.00", "2 of 3 right"):
        assert piece in page.words
    widths = re.findall(
        r'<rect class="mg-(up|down)" x="([\d.]+)" y="1" width="([\d.]+)"', still.group_html(line(["32", "18", "32"]))
    )
    assert [(side, float(x)) for side, x, _ in widths] == [("up", 50), ("down", 0), ("up", 50)]
    assert [float(w) for *_, w in widths] == pytest.approx([25, 50, 25], abs=0.1)  # to the scale of the largest


def test_the_sign_is_told_without_colour() -> None:
    page = still.group_html(line(["32", "18"]))
    assert 'aria-label="advantage +0.71"' in page
    assert 'aria-label="advantage −0.71"' in page


def test_a_group_without_signal_says_why() -> None:
    assert "so every advantage is 0" in still.group_html(line(["32", "32"]))


@pytest.mark.parametrize("text", POISON)
def test_what_a_model_wrote_is_text(text: str) -> None:
    html = still.group_html(line([text, "32"], question=f"{text}?"))
    page = Page(html)
    assert set(page.tags) <= OURS
    assert not {n for n in page.names if n.startswith("on") or n in ("href", "src")}
    assert page.tags.count("style") == 1
    html.encode("utf-8")
    assert not re.search("[\u202a-\u202e\x00-\x09\x0b-\x1f]", html)
    if text.isprintable() and text.isascii():
        assert text in page.words


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"step": 1},
        {"step": 1, "completions": 3},
        {
            "step": 1,
            "completions": [None, {"text": 5, "spans": "x", "reward": "1", "parts": []}],
            "prompt": 7,
            "answer": {"a": [1]},
        },
    ],
)
def test_an_odd_line_is_shown_as_far_as_it_goes(odd: dict[str, Any]) -> None:
    assert still.group_html(odd).count("<style>") == 1


def test_long_texts_are_cut() -> None:
    page = still.group_html(line(["x" * 100_000, "32"] * 40))
    assert "99,400 characters more" in page
    assert "48 more" in page
    assert len(page) < 40_000


def test_a_curve_has_gaps_where_numbers_are_missing() -> None:
    page = still.curve_svg([0.1, 0.2, None, float("nan"), 0.5], "<Reward>")
    (path,) = re.findall(r'class="mg-line" d="([^"]*)"', page)
    assert re.findall("[ML]", path) == ["M", "L", "M"]
    assert "step 1: 0.10, step 5: 0.50" in page
    assert "&lt;Reward&gt;" in page
    assert set(Page(page).tags) <= OURS
    assert "no numbers yet" in still.curve_svg([], "Reward")


def test_a_metric_is_read_from_events() -> None:
    events = [
        {"event": "Started"},
        {"event": "Step", "metrics": {"a": 1}},
        {"event": "Step", "metrics": {"a": "1"}},
        {"event": "Step"},
    ]
    assert still.metric(events, "a") == [1.0, None, None]


class Shown:
    """A notebook's outputs, by the order in which they were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("IPython", reason="needs the extra notebooks")
        import IPython.display

        self.pages: list[list[str]] = []

        def display(content: Any, display_id: bool = False) -> Any:
            pages = [content.data]
            self.pages.append(pages)

            class Handle:
                def update(self, content: Any) -> None:
                    pages.append(content.data)

            return Handle()

        monkeypatch.setattr(IPython.display, "display", display)


def test_a_notebook_follows_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, live = Shown(monkeypatch), Live()
    live(Started(0, 2, {"reward": ["number(lenient=True)"], "max_tokens": 8}, 1000))
    live(Evaluated(0, 16, 0.1, 0.25, 0.0, 5.0))
    live.progress("sampling", 3, 16)
    for step in (1, 2):
        metrics = {"reward/mean": step / 2, "group/signal": 0.5}
        live(Step(step, metrics, {"rollout": 1.0}, [line(["32", "32"]), line(["32", POISON[0]])]))
    live(Warned(2, "reward failed", "<b>one</b>\nTraceback"))
    live(Ended(2, "finished"))
    live.close()
    said, board, warning = shown.pages
    assert "sampling 3/16" in said[0]
    assert "step 1 of 2" in said[1]
    assert "1 s left" in said[1]
    assert "finished after step 2" in said[-1]
    assert "25% of 16 held-out after step 0" in said[-1]
    assert len(board) == 2  # one output, changed in place
    assert "step 1: 0.50, step 2: 1.00" in board[-1]
    assert "&lt;img src=x" in board[-1]  # the group whose rewards differ
    assert "&lt;b&gt;one" in warning[0]
    assert "Traceback" not in warning[0]


def test_a_resumed_run_goes_on_from_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, live = Shown(monkeypatch), Live()
    live(Started(40, 42, {"reward": ["number()"]}, 1000))
    for step in (41, 42):
        live(Step(step, {"reward/mean": 0.5}, {"rollout": 1.0}, []))
    live(Evaluated(42, 16, 0.1, 0.25, 0.0, 5.0))  # strict is what it was trained on
    live(Ended(42, "finished"))
    said, board = shown.pages
    assert "step 41: 0.50, step 42: 0.50" in board[-1]
    assert ">step 41</text>" in board[-1]
    assert "10% of 16 held-out" in said[-1]


def test_progress_does_not_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, live = Shown(monkeypatch), Live()
    for done in range(1000):
        live.progress("sampling", done, 1000)
    assert sum(map(len, shown.pages)) <= 2


def test_a_closed_notebook_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Shown(monkeypatch)
    import IPython.display

    monkeypatch.setattr(IPython.display, "display", lambda *a, **k: 1 / 0)
    live = Live()
    live.progress("sampling", 1, 2)
    live(Step(1, {"reward/mean": None}, {}, []))  # type: ignore[dict-item]


def test_the_group_that_differs_most_is_shown() -> None:
    assert telling([{"std": 0.1}, {"std": "odd"}, {"std": 0.4, "me": 1}, {}]) == {"std": 0.4, "me": 1}

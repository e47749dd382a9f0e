"""What a model wrote stays text, on every tab: no markup, no script, no link, and nothing is swallowed."""

from typing import Any

from browser.conftest import OPEN, Panel, Visits

QUIET = "() => window.__xss === undefined"
ALIEN = ".mg script, .mg img, .mg iframe, .mg a[href^='javascript'], .mg [onerror], .mg [onload], .mg [onclick]"


def clean(page: Any) -> None:
    assert page.evaluate(QUIET)
    assert page.locator(ALIEN).count() == 0


def test_poison_stays_text(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "6", "--groups", "6", "--poison", "--tokens", "6")
    (run / "notes.jsonl").write_text('{"key": "x", "text": "<img src=x onerror=\'window.__xss=9\'>"}\n')
    page = visit(panel.url, f"run={name}&step=3")
    page.wait_for_selector("li.group")
    clean(page)
    text = page.inner_text('[data-view="groups"]')
    for literal in ("<img src=x onerror=", "{{7*7}} ${7*7}", "<script>"):
        assert literal in text
    assert "49" not in text.replace("= 49", "").split("What is")[0]
    for i in range(8):
        page.locator(OPEN).nth(i).click()
        page.wait_for_selector("article.isopen .full")
        clean(page)
        page.locator("article.isopen .tokens").click()
        page.wait_for_selector("article.isopen .heat, article.isopen [data-tokens=absent]")
        page.locator("article.isopen .diffwith").select_option(index=1)
        page.wait_for_selector("article.isopen .diff, article.isopen .below .note.bad")
        clean(page)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")  # 200,000 letters in one word
    page.locator("text=Prompt and explanation").first.click()
    page.fill('input[type="search"]', "<img")
    page.wait_for_selector("mark")
    assert page.locator("mark").first.inner_text() == "<img"
    clean(page)
    for tab in ("curves", "compare", "chat", "train", "runs"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')
        clean(page)


def test_nothing_is_swallowed(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "12", "--groups", "4", "--poison")
    page = visit(panel.url, f"run={name}&scope=run&show=mixed")
    page.wait_for_selector("li.group")
    text = page.inner_text('[data-view="groups"]')
    assert "<think>literal</think>" in text
    assert "\u202e" not in text  # shown as a symbol, so that it turns nothing around
    assert "\x1b" not in text

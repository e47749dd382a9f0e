"""Pictures of every tab, light and dark, wide and narrow: python tests/browser/shots.py [FOLDER] [--into shots].

Of the runs in FOLDER; without it, of a run of the fake trainer.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parents[1])]

from playwright.sync_api import sync_playwright  # noqa: E402

from browser import fake_trainer  # noqa: E402
from browser.conftest import FLAGS, READY, Panel, executable  # noqa: E402

TABS = ("groups", "curves", "compare", "chat", "train", "runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=Path)
    parser.add_argument("--into", type=Path, default=ROOT / "shots")
    args = parser.parse_args()
    args.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        if args.runs is None:
            fake_trainer.main([f"{folder}/sums", "--steps", "30", "--groups", "5", "--tokens", "5"])
        panel = Panel(args.runs or Path(folder))
        browser = play.chromium.launch(executable_path=executable(), args=FLAGS)
        for scheme in ("light", "dark"):
            for width, height in ((1440, 1000), (375, 812)):
                context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
                page = context.new_page()
                page.goto(panel.url)
                page.wait_for_selector(READY)
                for tab in TABS:
                    page.click(f"#tab-{tab}")
                    page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')
                    page.wait_for_timeout(300)  # what is drawn a moment later
                    page.screenshot(path=args.into / f"{tab}-{scheme}-{width}.png", full_page=width < 1000)
                context.close()
        browser.close()
        panel.close()
    print(f"{len(list(args.into.glob('*.png')))} pictures in {args.into}")


if __name__ == "__main__":
    main()

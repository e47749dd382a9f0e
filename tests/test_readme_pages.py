"""README points to what is there, says the code's own numbers, and nothing of the machine it was written on."""

import re
import socket

import pytest
from test_readme import PAGES, README, ROOT, between

from minigrpo.config import Config


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str):
    for link in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        if not link.startswith("http"):
            assert ((ROOT / page).parent / link).exists(), link


def test_map_is_whole():
    names = set(re.findall(r"^\| \[[^\]]+\]\(minigrpo/([^)]+)\)", README, re.M))
    rooms = {p.name for p in (ROOT / "minigrpo").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert names == (rooms - {"__init__.py", "__main__.py"}) | {"recorded"}


def test_figure_has_the_numbers_of_the_loop():
    figure = re.search(r"## The loop\n.*?```\n(.*?)```", README, re.S)
    assert figure
    stages = dict(re.findall(r"^ {1,2}(\d+) +\(?(\w[\w-]*)", figure[1], re.M))
    assert list(stages) == [str(n) for n in range(1, 14)]
    code = "".join((ROOT / "minigrpo" / f).read_text("utf-8") for f in ("loop.py", "update.py"))
    told = " ".join(re.findall(r"#(.*)", code))
    for number, word in stages.items():
        assert re.search(rf"\b{number},? {word}\b", told), f"{number} {word}"
    for name in re.findall(r"(?<=\s)[a-z_]+(?:/[a-z_0-9]*)?(?:\.py|/)(?=\s)", figure[1]):
        assert (ROOT / "minigrpo" / name).exists() or name == "groups/", name


def test_defaults_are_the_code_s():
    fields = Config.model_fields
    assert f"The default, {fields['lr'].default:g}".replace("0.0002", "2e-4") in README
    assert f"after {fields['warmup'].default} steps (`warmup`)" in README
    assert f"every {fields['save_every'].default} steps (`save_every`)" in README
    assert fields["schedule"].default == "cosine"


@pytest.mark.parametrize("page", PAGES)
def test_nothing_of_this_machine(page: str):
    text = PAGES[page]
    assert not re.search(r"(?<![\w.~/])/(home|root|tmp|work|mnt|Users)\b", text)
    if len(socket.gethostname()) > 3:
        assert socket.gethostname() not in text


def test_measured_numbers_say_how():
    block = between("demo")
    if "not measured" not in block:
        assert re.search(r"\d{4}-\d{2}-\d{2}", block), "the date"
        assert "make demo" in block or "minigrpo demo" in block, "the command"
        assert re.search(r"core|GPU|CPU", block), "the machine"

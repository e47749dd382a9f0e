"""Which questions are held out: decided by the question itself, so that no seed and no order moves one across."""

import hashlib
from collections.abc import Iterable

from minigrpo.errors import UserError


def choose(keys: Iterable[str], split: str, share: float) -> set[str]:
    """The keys that belong to `split` where about `share` of all are held out; of two or more, at least one each.

    Raises UserError for a share outside [0, 1), ValueError for an unknown split.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is train or test, not {split!r}")
    if not 0 <= share < 1:
        raise UserError(f"held_out={share} is no share", "give a number from 0 up to, but not including, 1")
    places = {key: place(key) for key in keys}
    held_out = {key for key, at in places.items() if at < share}
    if share and len(places) > 1:  # a handful of questions may all fall on one side
        by_place = sorted(places, key=places.__getitem__)
        held_out = (held_out | {by_place[0]}) - {by_place[-1]}
    return held_out if split == "test" else set(places) - held_out


def place(key: str) -> float:
    """A number in [0, 1) that depends on nothing but the key."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest()) / 2**48

"""Groups in plain words, for who does not know the field: what each taught, why, and what to change."""

import math
from collections.abc import Sequence

from minigrpo.types import mean
from minigrpo.ui import causes
from minigrpo.ui.group import Answer, Group, spread
from minigrpo.ui.rules import Rules, knobs

_TINY = 1e-9


def num(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}".replace("-", "\u2212")
    return text.removeprefix("\u2212") if not float(text.replace("\u2212", "-")) else text


def signed(value: float, digits: int = 2) -> str:
    text = num(value, digits)
    return text if text[0] == "\u2212" or not float(text) else f"+{text}"


def several(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def say(group: Group, rules: Rules) -> str:
    """What the group taught, in one or two sentences."""
    n = len(group.answers)
    if n < 2:
        return "A single completion has nothing to be compared with." if n else "This group has no completions."
    rewards = [a.reward for a in group.answers if a.reward is not None]
    if spread(rewards):
        return _mixed(group, rules)
    if len(rewards) < n:
        return (
            f"Of {n} completions {len(rewards) or 'none'} {'has' if len(rewards) == 1 else 'have'} a reward on record."
        )
    scored = f"All {n} completions scored {num(rewards[0])}"
    if any(a.adv for a in group.answers):
        return f"{scored}. Their advantages come from more than this group's mean."
    taught = f"{scored}, so every advantage is 0 and this group taught nothing."
    return f"{taught} {_same(group, rules)}"


def _mixed(group: Group, rules: Rules) -> str:
    n, right = len(group.answers), sum(a.outcome == "right" for a in group.answers)
    if group.kept is False:
        return "Rewards differ, but the keep rule left this group out of the update: it taught nothing."
    if all(a.adv == 0 for a in group.answers):
        return "Rewards differ, yet every advantage is 0: this group taught nothing."
    trouble = [t for t in (_failed(group), _outweighed(group), _unearned(group, rules), _doubtful(group)) if t]
    head = f"{right} of {n} right" if right else f"None of the {n} is right in every part"
    told = f"{head}{_almost(group, right)}: {_effect(group)}"
    told = _form_only(group, rules) or told
    return " ".join([told, *trouble[:1]]) if trouble else " ".join(t for t in (told, _cut(group, rules)) if t)


def _almost(group: Group, right: int) -> str:
    """Those that are right, but for parts beside the main one."""
    some = [a for a in group.answers if causes.solved(a) and a.outcome != "right"]
    lacking = [p.name for a in some for p in a.parts if (p.weight or 0) > 0 and (p.counted or 0) < 1.0 - _TINY]
    main, how_many = (some[0].main if some else None), f"{len(some)}{' more' if right else ''}"
    return f", {how_many} in {main.name} but not in {listed(list(dict.fromkeys(lacking)))}" if main and lacking else ""


def _effect(group: Group) -> str:
    """Who becomes more likely; "the right ones" only where it is true of each."""
    known = [a for a in group.answers if a.adv is not None and not a.idle]
    right = sum(a.outcome == "right" for a in known)
    if right and all((a.adv or 0) > 0 if a.outcome == "right" else (a.adv or 0) < 0 for a in known):
        one = right == 1
        return f"the right {'answer becomes' if one else 'answers become'} more likely, the others less."
    above = f"{num(group.mean)} " if group.mean is not None else ""
    return f"what scored above the mean {above}becomes more likely, what scored below it less."


def _form_only(group: Group, rules: Rules) -> str:
    """Where only other parts than the main one tell the completions apart."""
    decides, main = causes.deciding(group), next((a.main for a in group.answers if a.main), None)
    if main is None or not decides or main.name in decides or len(group.answers[0].parts) < 2:
        return ""
    n, right = len(group.answers), sum(map(causes.solved, group.answers))
    names = listed(decides)
    if right == n:
        return f"All {n} have full marks for {main.name}: only {names} tells them apart."
    alike = f"None of the {n} has full marks for {main.name}" if not right else f"{main.name} says the same of all {n}"
    return f"{alike}: only {names} tells them apart, so this group teaches that and nothing else."


def _same(group: Group, rules: Rules) -> str:
    """Why all rewards are equal."""
    n = len(group.answers)
    alike = f"All {n} are the same text" if causes.twins(group) == n else ""
    if group.signal == "all_right":
        easy = "Too easy for this model, or the reward cannot tell them apart."
        sure = f"{alike}: the model is sure of it." if alike else easy
        return _unearned(group, rules) or _doubtful(group) or sure
    if alike:
        return f"{alike}, so there is nothing to compare: a higher temperature makes them differ."
    if group.signal == "all_wrong":
        return _all_wrong(group, rules)
    return _failed(group) or _equal(group) or _cut(group, rules) or "The reward cannot tell them apart."


def _all_wrong(group: Group, rules: Rules) -> str:
    answers, n = group.answers, len(group.answers)
    if trouble := _failed(group):
        return trouble
    cut, lost = sum(a.cut for a in answers), sum(a.unreadable and not a.cut for a in answers)
    wrong = sum(a.main is not None and a.main.extracted is not None and not (a.cut or a.unreadable) for a in answers)
    if cut == n:
        return f"All {n} were cut off {_limit(rules)} before they could finish: raise max_tokens."
    if lost == n:
        return f"In none of the {n} was an answer found in the form the reward reads{_though(group)}."
    if wrong == n:
        return f"An answer was read in each of the {n}, and each was wrong: too hard for this model."
    told = {
        f"{'was' if cut == 1 else 'were'} cut off {_limit(rules)}": cut,
        "gave no answer that the reward could read": lost,
        "gave a wrong one" if lost else "gave a wrong answer": wrong,
    }
    if cut + lost + wrong == n:
        some = f"{listed([f'{count} {what}' for what, count in told.items() if count])}."
        return f"{some} Raise max_tokens." if 4 * cut >= 3 * n else some
    return "Too hard, or the reward never finds an answer in the form it reads."


def _equal(group: Group) -> str:
    """Which parts all earn, and which all miss."""
    found = causes.shares(group)
    if any(spread(values) for values in found.values()):
        return "Their parts differ, but add up to the same."
    first = {p.name: p.counted or 0.0 for p in group.answers[0].parts}
    earned = [name for name, value in first.items() if value >= 1.0 - _TINY]
    missed = [name for name, value in first.items() if value <= _TINY]
    return f"All earn {listed(earned)} and miss {listed(missed)}." if earned and missed else ""


def _failed(group: Group) -> str:
    failed = [p for a in group.answers for p in a.parts if p.status == "failed"]
    if not failed:
        return ""
    times, reason = sum(a.failed for a in group.answers), f" ({failed[0].note})" if failed[0].note else ""
    return f"The reward {failed[0].name} failed on {times} of {len(group.answers)}{reason}: these count as 0."


def _outweighed(group: Group) -> str:
    found, part = causes.drowned(group)
    if not found or part is None:
        return ""
    main = group.answers[found[0]].main
    those = "1 right answer scores" if len(found) == 1 else f"{len(found)} right answers score"
    return f"{those} less than a wrong one: {part} outweighs {main.name if main else 'the main part'}."


def _unearned(group: Group, rules: Rules) -> str:
    found = causes.unearned(group, rules)
    if not found:
        return ""
    those = "1 completion scores" if len(found) == 1 else f"{len(found)} completions score"
    stands = f"full marks, yet the right answer {group.gold} stands nowhere in {'its' if len(found) == 1 else 'their'}"
    return f"{those} {stands} text: the reward may have been fooled."


def _doubtful(group: Group) -> str:
    found = causes.doubtful(group)
    if not found:
        return ""
    one = len(found) == 1
    those = f"{several(len(found), 'completion')} with full marks {'ends' if one else 'end'} in another number than"
    return f"{those} {group.gold}: {'is it' if one else 'are they'} right, or is the reward fooled?"


def _cut(group: Group, rules: Rules) -> str:
    cut = sum(a.cut and a.outcome != "right" for a in group.answers)
    if not cut:
        return ""
    told = f"{cut} {'was' if cut == 1 else 'were'} cut off {_limit(rules)}"
    if near := sum(group.answers[i].cut for i in causes.held(group)):
        some = "" if near == cut else f"{near} of them "
        return f"{told}, {some}with the right answer {group.gold} already in {'its' if near == 1 else 'their'} text."
    return f"{told}."


def _though(group: Group) -> str:
    near = len(causes.held(group))
    return f", though the right answer {group.gold} stands somewhere in {near}" if near else ""


def _limit(rules: Rules) -> str:
    return f"at {several(rules.max_tokens, 'token')}" if rules.max_tokens else "at the token limit"


def kind_of_advantage(rules: Rules) -> str:
    if knobs(rules.advantage, "group_norm") is not None:
        return "mean and std"
    if knobs(rules.advantage, "centered") is not None:
        return "mean only"
    return rules.advantage or "not known"


def arithmetic(answer: Answer, group: Group, rules: Rules) -> str:
    """How the advantage came about, only as far as it comes out as recorded."""
    if answer.adv is None:
        return "No advantage is recorded."
    if answer.idle:
        return "Left out of the update by the keep rule: its advantage moves nothing."
    members = [a.reward for a in group.answers if a.reward is not None and not a.idle]
    if answer.reward is None or not members:
        return f"The advantage is {signed(answer.adv)}, as recorded."
    if not spread(members) and answer.adv == 0:
        return f"Every reward in this group is {num(answer.reward)}, so the advantage is 0."
    told = _worked_out(answer.reward, answer.adv, members, rules)
    known = f"The advantage is {signed(answer.adv)}, as recorded; reward {num(answer.reward)}, "
    return told or f"{known}this group's mean {num(mean(members))}."


def _worked_out(reward: float, adv: float, members: Sequence[float], rules: Rules) -> str:
    middle, norm = mean(members), knobs(rules.advantage, "group_norm")
    if norm is not None:
        ddof, eps = norm.get("ddof", 1), norm.get("eps", 1e-4)
        if type(ddof) is not int or not isinstance(eps, (int, float)) or not 0 <= ddof < len(members):
            return ""
        std = math.sqrt(math.fsum((r - middle) ** 2 for r in members) / (len(members) - ddof))
        if std + eps <= 0 or not _near((reward - middle) / (std + eps), adv):
            return ""
        for digits in (2, 3, 4):  # as few as the reader needs to come to the same
            a, b, c = (round(v, digits) for v in (reward, middle, std))
            if c + eps > 0 and round((a - b) / (c + eps), 2) == round(adv, 2):
                break
        sum_ = f"({num(reward, digits)} \u2212 {num(middle, digits)}) / ({num(std, digits)} + {eps:g})"
        side = "above" if adv > 0 else "below"
        far = f"reward {num(reward)} is {num(abs(adv))} standard deviations {side} this group's mean {num(middle)}"
        return f"{sum_} = {signed(adv)}: {far if adv else 'exactly the mean'}."
    if knobs(rules.advantage, "centered") is not None and _near(reward - middle, adv):
        digits = 2 if round(round(reward, 2) - round(middle, 2), 2) == round(adv, 2) else 3
        return f"{num(reward, digits)} \u2212 {num(middle, digits)} = {signed(adv, digits)}: reward minus the mean."
    return ""


def _near(value: float, recorded: float) -> bool:
    return abs(value - recorded) <= 0.01 * abs(recorded) + 1e-6

"""An opened group explained, a step summed up: how the numbers came about, what stands out, what to change."""

from collections import Counter
from collections.abc import Sequence

from minigrpo.types import mean
from minigrpo.ui import causes
from minigrpo.ui.group import Answer, Group
from minigrpo.ui.rules import Rules
from minigrpo.ui.words import kind_of_advantage, listed, num, several

_MANY = 0.5  # share of completions from which a trouble is the step's trouble


def explain(group: Group, rules: Rules) -> list[str]:
    """Sentences for the opened group, from how it works to what to do."""
    answers = group.answers
    told = [_how(group, rules)]
    if idle := sum(a.idle for a in answers):
        told.append(f"{_were(idle)} left out of the update by the keep rule.")
    if (same := causes.twins(group)) > 1:
        told.append(f"{same} of the {len(answers)} are the same text: they share one advantage and teach it more.")
    if failed := sum(a.failed for a in answers):
        told.append(f"The reward failed on {failed}: that is a mistake in its code, not in the completion.")
    if cut := sum(a.cut and a.outcome != "right" for a in answers):
        limit = f" (now {rules.max_tokens})" if rules.max_tokens else ""
        mend = f": raise max_tokens{limit}, or ask for shorter answers in the prompt" if 2 * cut >= len(answers) else ""
        told.append(f"{_were(cut)} cut off{mend}.")
    if lost := sum(a.unreadable for a in answers):
        told.append(_unread(group, lost))
    told += _outweighed(group)
    if fooled := causes.unearned(group, rules):
        told.append(
            f"{several(len(fooled), 'completion')} with full marks never {_states(fooled)} the right answer "
            f"{group.gold}. Read one: what pays without being right is what the model will learn."
        )
    if (doubtful := causes.doubtful(group)) and not fooled:
        told.append(
            f"{several(len(doubtful), 'completion')} with full marks {'ends' if len(doubtful) == 1 else 'end'} in "
            f"another number than {group.gold}, and the reward does not say what it read. If they are wrong, it pays "
            "for a text that only holds the number somewhere."
        )
    if group.signal == "all_right" and not (fooled or doubtful):
        told.append("Harder questions, or a part that prefers the better of two right answers, would teach more.")
    if group.signal == "all_wrong" and not (cut or lost or failed):
        told.append("Easier questions, a stronger model or more completions a prompt (group_size) give it a chance.")
    return told


def of_step(groups: Sequence[Group], rules: Rules) -> str:
    """A step in one to three sentences: its mean, what teaches, and the trouble if one stands out."""
    answers = [a for g in groups for a in g.answers]
    rewards = [a.reward for a in answers if a.reward is not None]
    if not answers:
        return ""
    signals = Counter(g.signal for g in groups)
    teach = sum(g.signal == "mixed" and g.kept is not False for g in groups)
    silent = [
        f"{signals[s]} {'is' if signals[s] == 1 else 'are'} {words}" for s, words in _SILENT.items() if signals[s]
    ]
    head = f"Mean reward {num(mean(rewards))}. " if rewards else ""
    count = f"{teach} of {several(len(groups), 'group')} {'teaches' if teach == 1 else 'teach'}"
    return " ".join([f"{head}{'; '.join([count, *silent])}.", *_trouble(groups, answers, rules)])


_SILENT = {"all_right": "all right", "all_wrong": "all wrong", "equal": "all equal"}


def _trouble(groups: Sequence[Group], answers: Sequence[Answer], rules: Rules) -> list[str]:
    """The one thing to look at first, in the order in which one would mend them."""
    n, limit = len(answers), f" at {several(rules.max_tokens, 'token')}" if rules.max_tokens else ""
    failed, cut = sum(a.failed for a in answers), sum(a.cut and a.outcome != "right" for a in answers)
    lost, solved = sum(a.unreadable and not a.cut for a in answers), sum(map(causes.solved, answers))
    if failed:
        return [f"The reward failed on {failed} of {several(n, 'completion')}: mend it first."]
    if cut >= _MANY * n:
        wrong = sum(not (a.cut or causes.solved(a)) for a in answers)
        wrong_too = f"; {wrong} of the {n - cut} that finished {'is' if wrong == 1 else 'are'} wrong too"
        others = wrong_too if 4 * wrong > 3 * (n - cut) > 0 else ""
        return [f"{cut} of {several(n, 'completion')} were cut off{limit}: raise max_tokens{others}."]
    if found := causes.parrots(groups):
        return [f"One and the same text has full marks on {found[1]} different questions: the reward was fooled."]
    fooled = sum(len(causes.unearned(g, rules)) for g in groups)
    if solved and fooled >= _MANY * solved:
        return [f"{fooled} of {solved} with full marks never state the right answer: the reward may have been fooled."]
    doubtful = sum(len(causes.doubtful(g)) for g in groups)
    if solved and doubtful >= _MANY * solved:
        return [f"{doubtful} of {solved} with full marks end in another number than the right one: read some of them."]
    below = [causes.drowned(g) for g in groups]
    if (drowned := sum(len(found) for found, _ in below)) > 1:
        part = Counter(p for _, p in below if p).most_common(1)
        heavier = f": {part[0][0]} weighs too much" if part else ""
        return [f"{drowned} right answers score less than a wrong one{heavier}."]
    if lost >= _MANY * n:
        return [f"In {lost} of {several(n, 'completion')} no answer was found in the form the reward reads."]
    return _form_or_level(groups)


def _form_or_level(groups: Sequence[Group]) -> list[str]:
    signals, n = Counter(g.signal for g in groups), len(groups)
    if signals["all_wrong"] >= 0.75 * n:
        return ["Most questions are too hard for this model."]
    if signals["all_right"] >= 0.75 * n:
        return ["Most groups have full marks throughout: too easy for this model, or the reward pays for too little."]
    if not signals["mixed"] and signals["all_wrong"] and signals["all_right"]:
        return ["Every question is either too easy or too hard."]
    return _form_alone(groups) or _copies(groups)


def _form_alone(groups: Sequence[Group]) -> list[str]:
    """Where the main part pays nobody, or says the same of all, and only others move anything."""
    mains = {a.main.name for g in groups for a in g.answers if a.main}
    if len(mains) != 1:
        return []
    main = next(iter(mains))
    decides = [set(causes.deciding(g)) for g in groups if g.signal == "mixed"]
    if decides and not any(main in d for d in decides) and all(decides):
        names = listed(sorted(set().union(*decides)))
        return [f"Only {names} tells completions apart, never {main}: the step teaches form alone."]
    answers = [a for g in groups for a in g.answers]
    if not decides and not any(map(causes.solved, answers)) and all((a.reward or 0) > 0 for a in answers):
        return [
            f"None of the {len(answers)} has full marks for {main}, yet all are paid: nothing teaches {main} any more."
        ]
    return []


def _copies(groups: Sequence[Group]) -> list[str]:
    """The model says the same over and over, and it is not right."""
    lacking = [[a.text for a in g.answers if not causes.solved(a)] for g in groups]
    copies, whole = sum(len(t) - len(set(t)) for t in lacking), sum(len(g.answers) for g in groups)
    if copies < _MANY * whole:
        return []
    return [f"{copies} of {whole} completions repeat another of their group: the model hardly tries anything else."]


def _how(group: Group, rules: Rules) -> str:
    kind = kind_of_advantage(rules)
    middle = f" {num(group.mean)}" if group.mean is not None else ""
    if kind == "mean and std":
        spread = f" {num(group.std)}" if group.std is not None else ""
        return (
            f"An advantage is a reward minus this group's mean{middle}, divided by the spread{spread}: above 0 the "
            "completion becomes more likely, below 0 less likely."
        )
    if kind == "mean only":
        return (
            f"An advantage is a reward minus this group's mean{middle}: above 0 the completion becomes more likely, "
            "below 0 less likely."
        )
    told = "is not recorded" if kind == "not known" else f"is taken by {kind}"
    return f"How advantages were taken {told}; above 0 a completion becomes more likely, below 0 less likely."


def _unread(group: Group, lost: int) -> str:
    near = sum(group.answers[i].unreadable for i in causes.held(group))
    told = f"In {lost} of the {len(group.answers)} no answer was found in the form the reward reads"
    if near:
        there = f"the right answer {group.gold} stands in {near} of them" if lost > 1 else f"{group.gold} stands in it"
        return f"{told}, yet {there}: the form is the trouble. Ask for it in the prompt."
    return f"{told}: ask for that form in the prompt, or read leniently."


def _outweighed(group: Group) -> list[str]:
    found, part = causes.drowned(group)
    if not found or part is None:
        return []
    main = group.answers[found[0]].main
    name = main.name if main else "the main part"
    pays = "earns" if len(found) == 1 else "earn"
    those = f"{several(len(found), 'right answer')} {pays} less than a wrong one"
    return [f"{those}: give {part} less weight than {name}."]


def _were(n: int) -> str:
    return f"{n} was" if n == 1 else f"{n} were"


def _states(found: Sequence[int]) -> str:
    return "states" if len(found) == 1 else "state"

# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your first run
#
# In five minutes, on a CPU: one group of answers by hand, then a real model of 135 million parameters that learns to
# add, while you watch its answers, rewards and advantages. Runs the same on Colab, Kaggle and your own machine.

# %%
import importlib.util
import subprocess
import sys
import warnings

if importlib.util.find_spec("minigrpo") is None:  # one pinned line, from the clone that this notebook lies in
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "-c", "../constraints.txt", ".."])

warnings.filterwarnings("ignore", message="IProgress not found")  # widgets are not needed here

import minigrpo

print("minigrpo", minigrpo.__version__, "on Python", sys.version.split()[0])

# %% [markdown]
# ## 1. One group, by hand
#
# GRPO asks a model the same question several times and compares the answers *with each other*. Here is a question and
# three answers that a model could have written. A reward reads each answer: `number` pays 1 if the answer is the right
# number.

# %%
from minigrpo import Completion, Example, Group, Span
from minigrpo.rewards import scoring

question = Example("doubling", "2, 4, 8, 16, … What comes next? Reply with only the number.", "32")
answers = ["32", "18", "32"]

parts = scoring.build(["number()"])
completions = [Completion([7], text, [Span("answer", 0, 1)], "stop", [0.0]) for text in answers]
(group,), _ = scoring.score([Group("by hand", question, [1], completions, max_tokens=8)], parts)

rewards = [c.reward for c in group.completions]
assert rewards == [1.0, 0.0, 1.0]
rewards

# %% [markdown]
# The **advantage** of an answer says how much better it is than its group: its reward minus the group's mean. The
# default recipe also divides by the group's standard deviation, so that easy and hard questions push equally hard.

# %%
from minigrpo.algo import advantage

centred = [spans[0] for spans in advantage.centered(group)]
scaled = [spans[0] for spans in advantage.group_norm(group)]

assert [round(a, 3) for a in centred] == [0.333, -0.667, 0.333]
assert [round(a, 2) for a in scaled] == [0.58, -1.15, 0.58]
centred, scaled

# %% [markdown]
# **The sign is what the model learns.** Plus: every token of this answer becomes a little more likely after this
# question. Minus: less likely. The advantages of a group add up to zero: praise for some is blame for the others. And
# if all answers score the same, all advantages are zero, and the group teaches nothing, right or wrong.
#
# This is how the panel draws a group, and how you will see the real ones below:

# %%
from IPython.display import HTML

from minigrpo import runfolder
from minigrpo.ui import still

line = runfolder.group_line(1, group, [[a] for a in scaled], [[1 / 3]] * 3, True, parts)
HTML(still.group_html(line))

# %% [markdown]
# ## 2. A real run
#
# SmolLM2-135M-Instruct learns sums on this machine: 8 questions a step, 8 answers each. It is fetched once (93 MB).
# You see the group of each step that taught most; towards the end ever fewer teach, because all answers are right. The
# square button ■ of the notebook stops the run and saves it.

# %%
import os

STEPS = 24
TINY = os.environ.get("MINIGRPO_TINY", "")  # for the tests: 1, or the folder of a tiny model, makes it short
MODEL = TINY if os.path.isdir(TINY) else "smollm2"
SMALL = {"steps": 2, "prompts_per_step": 2, "group_size": 4, "eval_n": 8} if TINY else {}

# %%
from minigrpo import config as configs
from minigrpo import session
from minigrpo.ui.live import Live

settings = configs.build(
    {
        "model": MODEL,
        "task": "arithmetic(high=15, held_out=0.35)",  # a third of the sums is never trained on
        "reward": ["number(lenient=True)"],
        "steps": STEPS,
        "prompts_per_step": 8,
        "group_size": 8,
        "max_tokens": 16,
        "eval_max_tokens": 32,
        "eval_n": 64,
        "lr": 5e-4,
        **SMALL,
    }
)
run, code = session.start(settings, Live(), name="first-run")

assert code == 0
run

# %% [markdown]
# Everything is in that folder: `config.yaml`, `events.jsonl` (every number), `groups/` (every answer), `adapter/` (what
# was learnt, a few megabytes that plain `peft` loads too).
#
# ## 3. What has changed
#
# The mean reward of the answers the model wrote while it learnt:

# %%
events = list(runfolder.lines(run / "events.jsonl"))
HTML(still.curve_svg(still.metric(events, "reward/mean"), "Mean reward of a step's answers"))

# %% [markdown]
# The reward of training is a mixture of luck and learning: answers are drawn at random. The honest comparison is on
# questions that were held out, answered greedily, once with the adapter and once without:

# %%
from minigrpo import evaluate, trained

opened = trained.open_trained(run)
questions, room = trained.questions(opened, settings.task, settings.eval_n)
reward = scoring.build(settings.reward)[0]
base, adapter = evaluate.compare(opened.policy, opened.engine, questions, reward, room)
result = evaluate.document(str(run), settings.task, settings.eval_n, reward, base, adapter)

if not TINY:
    assert result["adapter"]["lenient"] > result["base"]["lenient"], "it has not learnt: give it more STEPS"
evaluate.table(result)

# %% [markdown]
# *strict*: the answer is the number and nothing else. *lenient*: the last number of the text counts; this is what the
# run was trained on. The interval says how much could be luck with so few questions.
#
# ## 4. Talk to both
#
# The same weights answer twice, with the adapter switched off and on:

# %%
from minigrpo import chat

for text in ("What is 7 + 5?", "I have 9 apples and buy 4 more. How many do I have?", "Name a fruit."):
    said = chat.once(opened, text, max_tokens=8 if TINY else 40)
    print(f"{said['prompt']}\n   base     {said['base']!r}\n   adapter  {said['adapter']!r}\n")

# %% [markdown]
# The last question has nothing to do with sums. The adapter was paid for one thing only; what it lost or kept
# elsewhere, no reward has seen. So look.
#
# ## What next
#
# - Change one thing and run again: `lr`, `group_size`, `advantage="centered()"`, `task="sequences()"`. All there is:
#   `minigrpo options`.
# - Watch a run in the panel, every group of every step: `minigrpo panel runs`.
# - Your own data and your own reward: the README, "Your own data, your own model" and "Change one thing".

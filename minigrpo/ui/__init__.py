"""The panel: reads run folders, steers training by files, never touches the training process.

Serving
    panel       the process: its port, its rights, which handlers there are
    page        the one Gradio page; what it shows is drawn by web/
    guard       who may ask what
    ask         a handler: one checked JSON object in, one out
    beside      a panel beside a training
    child       other Python processes of ours
Which runs
    shelf       ids and folders
    listing     the rows of the table of runs
    adapters    the adapters of a run
    trl         an output folder of TRL, read as a run
    replay      a recorded run, played again
Reading a run
    tail        the new lines of a growing file
    shards      the lines of groups/
    history     the numbers of events.jsonl, in columns
    index       where each group stands; filters, sorting, search
    library     the indexes of a few runs
    rules       what the config says about reading groups
    plain       values from files of anybody, checked
    results     the evaluations in eval/
    tokens      what is recorded of every token
A group in words
    group       a line of groups/, every field checked
    causes      who is right, what decides, what went wrong
    words       the same in sentences
    advice      what stands out, what to change
    lens        what the completions that are pushed up share
    view        what the board shows of a group
Handlers
    server      the Groups tab: runs, polls, groups, texts, tokens
    board       which groups a poll shows
    doing       what a run is doing, in words
    difference  two texts, word by word
    curves      the Curves tab
    compare     the Compare tab
    control     commands, the end by force, stars and notes
Train tab
    train       its handlers
    form        a field per option
    presets     where to begin
    wish        the form as a config, a command, a YAML file
    outlook     what a training will cost
    preview     the first examples of a task
    trial       a text before the rewards
    survey      what this machine has
    consent     Python files that a config names are asked about
    launch      trainings that outlive the panel
Chat tab
    talk        its handlers
    stage       the one model that is loaded
    process     its worker, as the panel holds it
    worker      its worker: the only process here that loads a model
    questions   what to ask a run
Notebooks
    still       groups and curves as still HTML
    live        a run in a notebook
"""

"""One flat set of options: YAML file < flags < --set; unknown keys are errors; saved fully resolved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic
import pydantic_core
import yaml
from pydantic import BaseModel, ConfigDict, Field

from minigrpo.errors import UserError, nearest
from minigrpo.recipes import DEFAULT, RECIPES, SEAMS


class Config(BaseModel):
    """Everything a run is made of. Seams left empty come from the recipe (`resolve`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field("smollm2", description="smollm2, a hub id, or a local folder")
    adapter: str | None = Field(None, description="start from this adapter folder instead of a fresh one")
    task: str = Field("arithmetic()", description="what is asked: a task spec")
    eval_task: str | None = Field(None, description="what is asked in evaluations; default: the task's held-out split")
    reward: list[str] = Field(
        ["number(lenient=True)"], min_length=1, description="what is good: reward specs, summed by weight"
    )
    recipe: str = Field("default", description="which paper: see `minigrpo options`")
    loader: Literal["hf"] = Field("hf", description="who loads the weights")
    backend: Literal["native"] = Field("native", description="whose loop trains")
    engine: Literal["auto", "native", "hf"] = Field("auto", description="who writes completions; hf is the slow oracle")
    train_path: Literal["auto", "naive"] = Field("auto", description="how log-probs are computed")

    quant: Literal["auto", "nf4", "none"] = Field("auto", description="base weights; auto: nf4 on CUDA, none elsewhere")
    dtype: Literal["auto", "bf16", "fp16", "fp32"] = Field("auto", description="compute type; auto: by hardware")
    lora_r: int = Field(16, ge=1, le=1024, description="rank of the adapter: how much it can take up")
    lora_alpha: int = Field(32, ge=1, description="the adapter counts lora_alpha / lora_r times")
    lora_targets: str | list[str] = Field("all-linear", description="module names, or all-linear")
    lora_dropout: float = Field(0.0, ge=0.0, lt=1.0, description="share of the adapter's inputs left out at random")

    prompts_per_step: int = Field(8, ge=1, description="groups in a step")
    group_size: int = Field(8, ge=2, le=1024, description="completions of one prompt that are compared")
    steps: int = Field(100, ge=1, description="optimizer updates")
    max_prompt_tokens: int = Field(1024, ge=1, description="longer prompts are dropped and counted")
    max_tokens: int = Field(256, ge=1, description="completion budget; arithmetic and sequences take 32")
    temperature: float = Field(1.0, ge=0.01, le=10.0, description="how freely is sampled; 1: as the model is")
    system_prompt: str | None = Field(None, description="said before every prompt; default: what the template says")
    template_kwargs: dict[str, pydantic.JsonValue] = Field(
        {}, description="for the chat template, e.g. {enable_thinking: false}"
    )

    optimizer: Literal["adamw"] = Field("adamw", description="what makes an update of a gradient")
    lr: float = Field(2e-4, gt=0.0, le=1.0, description="learning rate, at its highest")
    warmup: int = Field(4, ge=0, description="steps of rising learning rate")
    schedule: Literal["cosine", "linear", "constant"] = Field("cosine", description="how the learning rate falls")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="pull of the adapter towards nothing")
    max_grad_norm: float = Field(1.0, gt=0.0, description="a longer gradient is shortened to this")

    seed: int = Field(0, ge=0, lt=2**31, description="of the order of examples and of sampling")
    eval_every: int = Field(0, ge=0, description="evaluate every so many steps; the start and the end always are")
    eval_n: int = Field(64, ge=0, description="held-out examples per evaluation; 0: none")
    eval_max_tokens: int | None = Field(None, ge=1, description="completion budget in evaluations; default: max_tokens")
    save_every: int = Field(10, ge=1, description="checkpoint every so many steps; the end always is")
    keep_last: int = Field(2, ge=1, description="checkpoints kept besides the best")
    log_tokens: int = Field(
        0, ge=0, description="keep numbers of every token in the last so many steps; costs three more passes a step"
    )
    out: str | None = Field(None, description="the run folder; default runs/<name>")

    beta: float | None = Field(None, ge=0.0, description="weight of the KL penalty; default: the recipe's")
    sampler: str | None = Field(None, description="which examples the next steps draw; default: the recipe's")
    plan: str | None = Field(None, description="the shape of a rollout; default: the recipe's")
    shaping: str | None = Field(None, description="rewards seen across their group; default: the recipe's")
    keep: str | None = Field(None, description="which completions learn; default: the recipe's")
    advantage: str | None = Field(
        None, description="how much better than its group a completion is; default: the recipe's"
    )
    reweight: str | None = Field(None, description="advantages seen across the step; default: the recipe's")
    aggregate: str | None = Field(None, description="how much each token counts; default: the recipe's")
    ratio: str | None = Field(None, description="how new and old probabilities are compared; default: the recipe's")
    surrogate: str | None = Field(None, description="how far an update may go; default: the recipe's")
    kl: str | None = Field(None, description="how the distance from the base is measured; default: the recipe's")

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: Any) -> Any:
        """No option is a switch, and `steps: true` is not 1."""
        if isinstance(value, bool):
            raise pydantic_core.PydanticCustomError("switch", "it is no switch")
        return value

    @property
    def answer_tokens(self) -> int:
        """The completion budget of evaluations."""
        return self.eval_max_tokens or self.max_tokens

    @pydantic.field_validator("template_kwargs")
    @classmethod
    def _of_the_template(cls, values: dict[str, Any]) -> dict[str, Any]:
        taken = {
            "chat_template",
            "tokenize",
            "messages",
            "conversation",
            "add_generation_prompt",
            "continue_final_message",
        }
        if found := sorted(taken & values.keys()):
            raise ValueError(f"{found[0]} is not for a template to take")
        return values

    def resolve(self) -> "Config":
        """The same config with every seam and beta filled in from the recipe. Raises UserError."""
        if self.recipe not in RECIPES:
            raise UserError(f"no recipe called {self.recipe!r}", nearest(self.recipe, RECIPES))
        recipe = {**DEFAULT, **RECIPES[self.recipe]}
        empty = {k: recipe[k] for k in (*SEAMS, "beta") if getattr(self, k) is None}
        return self.model_copy(update=empty)


def load(
    file: str | Path | None = None, values: Mapping[str, Any] | None = None, sets: list[str] | None = None
) -> Config:
    """YAML file < values (from flags; None is unset) < "key=value" texts. Raises UserError."""
    merged: dict[str, Any] = dict(_read(Path(file))) if file else {}
    merged |= {k: v for k, v in (values or {}).items() if v is not None}
    for text in sets or []:
        key, sep, value = text.partition("=")
        if not sep:
            raise UserError(f"--set {text!r} has no '='", "write --set key=value")
        merged[key.strip()] = _literal(key.strip(), value.strip())
    return build(merged)


def build(values: Mapping[str, Any]) -> Config:
    """A checked config from plain values; unknown keys and values out of range are UserErrors."""
    if isinstance(values.get("reward"), str):
        values = {**values, "reward": [values["reward"]]}
    try:
        return Config(**values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            raise UserError(f"no option called {key!r}", nearest(key, Config.model_fields)) from None
        raise UserError(f"{key}={first.get('input')!r}: {first['msg'].lower()}", _allowed(key)) from None


def dump(config: Config) -> str:
    """The config as YAML that `load` reads back to an equal config."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def _allowed(key: str) -> str:
    """One line on what a key takes, from its own schema."""
    field = Config.model_fields[key]
    schema = Config.model_json_schema()["properties"][key]
    schema |= next((s for s in schema.get("anyOf", []) if s.get("type") != "null"), {})
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[k]}" for k, sign in signs.items() if k in schema]
    kind = (
        " or ".join(map(str, schema["enum"])) if "enum" in schema else str(schema.get("const", schema.get("type", "")))
    )
    text = f"{key} takes {kind} {' and '.join(bounds)}".rstrip()
    return f"{text} ({field.description})" if field.description else text


def _literal(key: str, value: str) -> Any:
    """A --set value: text stays text where the option is text, else it is read as YAML."""
    field = Config.model_fields.get(key)
    if field is None or field.annotation in (str, str | None):
        return None if value == "null" else value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):  # ValueError: 2024-99-99, or a number of thousands of digits
        raise UserError(f"cannot read --set {key}={value}", "lists are [a, b], mappings {a: b}") from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that also refuses a key given twice, and aliases (a few lines of them expand to gigabytes)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(k) for k, _ in node.value]
        twice = next((k for k in keys if keys.count(k) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice!r} is given twice")
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > 1_000_000:
            raise UserError(f"{path} is larger than 1 MB", "a config is a short YAML file")
        values = yaml.load(path.read_text("utf-8-sig"), _Loader)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "give the path of a YAML file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        where = f"{path}:{mark.line + 1}" if mark else path
        raise UserError(f"{where} is not valid YAML: {' '.join(problem.split())}", "one `key: value` a line") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(k, str) for k in values):
        raise UserError(f"{path} is not a list of options", "one `key: value` a line, for instance steps: 100")
    return values

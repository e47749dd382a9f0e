"""Questions from the page: every handler takes one checked JSON object and answers with one, whatever it was asked."""

import functools
import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict

from minigrpo.errors import UserError, printable
from minigrpo.events import finite

Answer = dict[str, Any]
Handler = Callable[[Any], Answer]
Q = TypeVar("Q", bound="Query")


class Query(BaseModel):
    """What a handler may be asked: unknown keys and wrong types are refused, for anyone can call it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def handler(function: Callable[[Q], Answer]) -> Handler:
    """A server function of `function`, whose only parameter is annotated with its Query. It never raises."""
    (parameter,) = inspect.signature(function, eval_str=True).parameters.values()
    query: type[Q] = parameter.annotation

    @functools.wraps(function)
    def asked(data: Any = None) -> Answer:
        try:
            answer: Answer = finite(function(query.model_validate(data)))
            return answer
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            return refusal(f"{function.__name__}: {where}: {first['msg'].lower()}", "reload the page")
        except UserError as error:
            return refusal(error.message, error.hint)
        except (
            Exception
        ) as error:  # a mistake of ours, or a disk that fails: told, never swallowed, and the page lives on
            print(printable(traceback.format_exc()), file=sys.stderr)
            return refusal(f"the panel failed: {type(error).__name__}", "its terminal says where; please report it")

    asked.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # gradio looks for special arguments in it
        [inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)]
    )
    del asked.__annotations__, asked.__wrapped__  # type: ignore[attr-defined]
    return asked


def refusal(message: str, fix: str = "") -> Answer:
    return {"error": message, "fix": fix}

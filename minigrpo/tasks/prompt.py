"""Filling a prompt's template: plain replacement, so that a template may hold braces (\\boxed{}) of its own."""

from minigrpo.errors import UserError


def fill(template: str, **values: object) -> str:
    """The template with each {name} replaced. Raises UserError where one of the names is not in it."""
    missing = next((name for name in values if "{" + name + "}" not in template), None)
    if missing is not None:
        needed = ", ".join("{" + name + "}" for name in values)
        raise UserError(f"the prompt {template!r} lacks {{{missing}}}", f"it needs {needed}")
    for name, value in values.items():
        template = template.replace("{" + name + "}", str(value))
    return template

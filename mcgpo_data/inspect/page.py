"""HTML pages from the templates of this package. Log text is inert whatever it holds.

Every value that a template prints passes through `inert` and is then escaped; only figures that we drew are markup.
Pages load nothing: a content security policy forbids scripts and all addresses.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from mcgpo_data.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def inert(text: str) -> str:
    """Text with every control, direction and unassigned character spelled out, other than line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _spelled(c) for c in text)


def _spelled(c: str) -> str:
    return " " if c in "\u00a0\u202f\u3000\r" else f"⟨U+{ord(c):04X}⟩"


def shorten(text: str, limit: int, *, end: bool = False) -> str:
    """The first `limit` characters (the last ones with `end`) and how many are left out."""
    if len(text) <= limit:
        return text
    left_out = f"[{len(text) - limit:,} more characters]"
    return f"{left_out} …{text[-limit:]}" if end else f"{text[:limit]}… {left_out}"


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise UsageError("pages need Jinja2, which is not installed: pip install 'mcgpo[notebook]'") from error
    environment = Environment(
        loader=PackageLoader("mcgpo_data.inspect"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shorten=shorten,
        share=share,
        number=number,
        options=options,
    )
    return environment


def share(value: float | None) -> str:
    """A share in per cent, finer near both ends."""
    if value is None:
        return "–"
    value = round(value, 9)
    return f"{value:.0%}" if 0.1 <= value <= 0.9 or value in (0, 1) else f"{value:.1%}"


def number(value: float | None) -> str:
    """A count in full, or a number to three digits."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def options(text: str) -> Markup:
    """Our own words, options of the command line set apart."""
    from markupsafe import Markup, escape

    marked = re.sub(r"--[a-z][a-z-]*", r"<code>\g<0></code>", str(escape(inert(text))))
    return Markup(marked)  # noqa: S704  # escaped above


def _printed(value: Any) -> Any:
    return inert(value) if type(value) is str else value  # Markup is a str, too, and stays as it is


def render(template: str, **values: Any) -> str:
    """A page from `templates/{template}`.

    Raises:
        UsageError: Jinja2 is not installed.
    """
    return _environment().get_template(template).render(values)

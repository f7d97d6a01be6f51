"""`fhirapp docs`: the manual at a terminal."""

from __future__ import annotations

import difflib

import click

from fhirapp.features.manual.contents import pages


@click.command()
@click.argument("name", required=False)
def docs(name: str | None) -> None:
    """Print a page of the manual; without NAME, list the pages."""
    if name is None:
        width = max(map(len, pages()))
        for page in pages().values():
            click.echo(f"{page.name:{width}}  {page.title}")
        return
    shown = pages().get(name.removesuffix(".md"))
    if shown is None:
        nearest = difflib.get_close_matches(name, pages(), n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "`fhirapp docs` lists the pages."
        # It imports much that the pages do not need.
        from fhirapp.config import RefusedCommand

        raise RefusedCommand(f"The manual has no page {name}; {hint}")
    click.echo(shown.source)

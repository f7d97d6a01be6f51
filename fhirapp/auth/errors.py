"""What cannot be done, said to the person who asked for it."""

from __future__ import annotations

from fhirapp.config import ConfigurationError


class Marked(str):
    """A part of a sentence that is gathered for translators too."""


class RefusedCommand(ConfigurationError):
    """What was asked on the shell or on a page cannot be done; str() says why, in English.

    values fill in what stands in the text as %(name)s: pages say both in their own language
    (web/texts).
    """

    def __init__(self, text: str, /, **values: object) -> None:
        super().__init__(text % values if values else text)
        self.text, self.values = text, values

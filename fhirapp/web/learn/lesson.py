"""Read the lessons: a Markdown file each, whose first lines between +++ say what counts as done.

Ours lie in lessons/; those of the folder that FHIRAPP_LESSONS names come after them. A file that
cannot be read is a Fault, for staff to see, and the other lessons are there all the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.config import settings
from fhirapp.web.learn.checks import INTERACTIONS, WHO, Check, Expected, Question
from fhirapp.web.texts import _

_OURS = Path(__file__).with_name("lessons")
# How a lesson is written is told at this name.
_NO_LESSON = "writing"
_FENCE = "+++"
_NAME = re.compile(r"(?:[0-9]+-)?([a-z0-9]+(?:-[a-z0-9]+)*)")
LARGEST = 200_000
_AT_LINE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_OF_REQUEST = {one.name: one.type for one in fields(Expected)}
# Written as one value or a list of them; a parameter of a list of lists is one of several.
_LISTS = ("who", "parameters", "without", "status", "serves", "serves_only")
_TEXTS = ("title", "level", "goal")


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson: what is to be learned, done and known."""

    # Of the file, without number and ending: the last part of the address.
    name: str
    title: str
    minutes: int
    level: str
    goal: str
    checks: tuple[Check, ...]
    hints: tuple[str, ...]
    # Which person of the demo can do it; empty for anyone.
    person: str
    # In Markdown.
    text: str


class Fault(NamedTuple):
    """Why a file is no lesson; line is 0 where it is about the whole."""

    path: Path
    line: int
    sentence: str


class _Unreadable(Exception):
    """A file is no lesson; str() is a sentence, line where in the front matter, 0 for the whole."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.line = line


def lessons() -> tuple[Sequence[Lesson], Sequence[Fault]]:
    """Return the lessons in their order, and what cannot be read."""
    found: dict[str, Lesson] = {}
    faults: list[Fault] = []
    own = settings().lessons
    for folder in [_OURS, *([Path(own)] if own else [])]:
        if not folder.is_dir():
            faults.append(Fault(folder, 0, _("This folder of FHIRAPP_LESSONS is not there.")))
        for path in sorted(folder.glob("*.md")):
            one = _read(path)
            if isinstance(one, Lesson) and one.name in (*found, _NO_LESSON):
                one = Fault(
                    path,
                    0,
                    _("There is a page %(name)s already; rename the file.", name=one.name),
                )
            if isinstance(one, Fault):
                faults.append(one)
            else:
                found[one.name] = one
    return [*found.values()], faults


def _read(path: Path) -> Lesson | Fault:
    try:
        about = path.stat()
        return _cached(path, about.st_mtime_ns, about.st_size)
    except OSError as error:
        return Fault(path, 0, _("It cannot be read: %(reason)s.", reason=error.strerror))


@lru_cache(maxsize=500)
def _cached(path: Path, _changed: int, size: int) -> Lesson | Fault:
    """Return a lesson as it stood in its file when that was changed last. Raises OSError."""
    try:
        if size > LARGEST:
            raise _Unreadable(_("It has more than %(most)s bytes.", most=LARGEST))
        return parse(path.stem, path.read_bytes())
    except _Unreadable as error:
        return Fault(path, error.line, str(error))


def parse(stem: str, content: bytes) -> Lesson:
    """Return the lesson of a file's name and content. Raises _Unreadable."""
    name = _NAME.fullmatch(stem)
    if name is None:
        raise _Unreadable(_("Name it with small letters, digits and -, as 20-my-lesson.md."))
    try:
        # An editor may have put a mark before it.
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise _Unreadable(_("It is not UTF-8; save it in that encoding.")) from None
    if not lines or lines[0].rstrip() != _FENCE:
        raise _Unreadable(_("Its first line must be +++, and nothing else."), 1)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise _Unreadable(_("A second line +++ is missing, before the text."), len(lines))
    front = _Front(lines[1:end])
    return Lesson(name=name[1], text="\n".join(lines[end + 1 :]), **front.lesson())


class _Front:
    """What stands between the two lines +++, in TOML."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        try:
            self._said = tomllib.loads("\n".join(lines))
        except (ValueError, RecursionError) as error:
            # RecursionError: brackets in brackets, and so on.
            found = _AT_LINE.fullmatch(str(error))
            sentence, line = (found[1], found[2]) if found else (str(error), None)
            place = int(line) + 1 if line else len(lines) + 1
            raise _Unreadable(_("This is no TOML: %(reason)s.", reason=sentence), place) from None

    def lesson(self) -> Mapping[str, Any]:
        """Return the fields of the lesson. Raises _Unreadable."""
        said = self._said
        known = (*_TEXTS, "minutes", "hints", "checks", "person")
        self._no_others(said, known, "a lesson")
        for name in _TEXTS:
            if not isinstance(said.get(name), str) or not said[name].strip():
                raise self._fault(_("%(name)s is missing: a text in quotes.", name=name), name)
        if type(said.get("minutes")) is not int:
            raise self._fault(_("minutes is missing: a whole number."), "minutes")
        if not isinstance(said.get("person", ""), str):
            raise self._fault(_("person is a user name in quotes."), "person")
        checks = said.get("checks")
        if not isinstance(checks, list) or not checks:
            raise self._fault(_("There is no [[checks]]: something that counts as done."), "checks")
        return {
            **{name: said[name] for name in _TEXTS},
            "minutes": said["minutes"],
            "person": said.get("person", ""),
            "hints": tuple(self._texts(said.get("hints", []), "hints")),
            "checks": tuple(self._checks(checks)),
        }

    def _checks(self, checks: Sequence[Any]) -> Iterator[Check]:
        told: set[str] = set()
        for number, said in enumerate(checks):
            if not isinstance(said, dict):
                raise self._fault(_("Write each check as [[checks]]."), "checks")
            says = said.get("says")
            if not isinstance(says, str) or not says.strip():
                raise self._fault(_("says is missing: what is to be done."), "[[checks]]", number)
            if says in told:
                raise self._fault(_("Two checks say the same."), "says", number)
            told.add(says)
            self._no_others(said, ("says", "request", "requests", "question", "consent"), "a check")
            kinds = [one for one in ("request", "requests", "question", "consent") if one in said]
            if len(kinds) != 1:
                raise self._fault(
                    _("A check has one of request, requests, question and consent."),
                    "[[checks]]",
                    number,
                )
            yield self._check(says, said)

    def _check(self, says: str, said: Mapping[str, Any]) -> Check:
        if "question" in said:
            question = said["question"]
            self._are_texts(question, ("address", "answer"), "question")
            if not question["address"].startswith("/fhir/"):
                raise self._fault(_("address begins with /fhir/."), "address")
            return Check(says=says, question=Question(question["address"], question["answer"]))
        if "consent" in said:
            self._are_texts(said["consent"], ("client_id",), "consent")
            return Check(says=says, consent=said["consent"]["client_id"])
        requests = said.get("requests", [said.get("request")])
        if not isinstance(requests, list) or not requests:
            raise self._fault(_("Write each request as [[checks.requests]]."), "requests")
        return Check(says=says, requests=tuple(map(self._wanted, requests)))

    def _wanted(self, said: Any) -> Expected:
        if not isinstance(said, dict) or not said:
            raise self._fault(_("A request has at least one trait."), "request")
        self._no_others(said, _OF_REQUEST, "a request")
        values = {name: self._trait(name, value) for name, value in said.items()}
        for name, known in (("who", WHO), ("interaction", INTERACTIONS)):
            given = values.get(name, ())
            for one in given if isinstance(given, tuple) else (given,):
                if one not in known:
                    raise self._fault(
                        _("%(name)s is one of %(known)s.", name=name, known=", ".join(known)), name
                    )
        return Expected(**values)

    def _trait(self, name: str, value: Any) -> Any:
        """Return the value of a trait as Expected has it."""
        if name not in _LISTS:
            right = {"serves_at_least": int, "continues": bool, "exactly": bool}.get(name, str)
            if type(value) is not right:
                told = {
                    int: _("%(name)s is a whole number."),
                    bool: _("%(name)s is true or false."),
                }
                sentence = told.get(right, _("%(name)s is a text in quotes."))
                raise self._fault(sentence % {"name": name}, name)
            return value
        several = value if isinstance(value, list) else [value]
        if name == "status":
            if any(type(one) is not int for one in several):
                raise self._fault(_("status is a number, or a list of them."), name)
            return tuple(several)
        if name != "parameters":
            return tuple(self._texts(several, name))
        either = [one if isinstance(one, list) else [one] for one in several]
        if not all(either):
            raise self._fault(_("An empty list of parameters is none."), name)
        return tuple(tuple(self._texts(one, name)) for one in either)

    def _texts(self, values: Any, name: str) -> Iterable[str]:
        if not isinstance(values, list) or not all(isinstance(one, str) and one for one in values):
            raise self._fault(_("%(name)s is a list of texts in quotes.", name=name), name)
        return values

    def _are_texts(self, said: Any, names: Sequence[str], of: str) -> None:
        """Raise _Unreadable unless a table has these texts and nothing else."""
        if not isinstance(said, dict):
            raise self._fault(_("Write it as [checks.%(of)s].", of=of), of)
        self._no_others(said, names, f"a {of}")
        for name in names:
            if not isinstance(said.get(name), str) or not said[name]:
                raise self._fault(
                    _("The %(of)s lacks %(name)s: a text in quotes.", of=of, name=name), of
                )

    def _no_others(self, said: Iterable[str], known: Iterable[str], of: str) -> None:
        for name in said:
            if name not in known:
                known = ", ".join(known)
                raise self._fault(
                    _(
                        "%(name)s is nothing that %(of)s has; it has %(known)s.",
                        name=name,
                        of=of,
                        known=known,
                    ),
                    name,
                )

    def _fault(self, sentence: str, name: str, number: int = 0) -> _Unreadable:
        """Return what is wrong, with the line where the name stands for the first time."""
        place = re.compile(rf"\W*(?:checks\.)?{re.escape(name.strip('[]'))}\b")
        at = [n for n, line in enumerate(self._lines, 2) if place.match(line)]
        return _Unreadable(sentence, at[min(number, len(at) - 1)] if at else 1)

"""Read the lessons: a Markdown file each, whose front matter between +++ says what counts as done.

The server's own are in lessons/, what they say in another language in a folder beside them, such as
lessons/de/; those of the folder FHIRAPP_LESSONS come after them. A file that cannot be read is a
Fault, which staff see; the other lessons are shown all the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.config import settings
from fhirapp.features.learn.checks import Check, Question
from fhirapp.features.learn.expected import WHO, YOU, Expected
from fhirapp.features.learn.interaction import INTERACTIONS
from fhirapp.web.texts import ENGLISH, _, language

_OURS = Path(__file__).with_name("lessons")
# Other pages have these names.
_NO_LESSONS = ("writing", "join", "class", "classes", "come-back", "recap", "certificate")
_FENCE = "+++"
_NAME = re.compile(r"(?:[0-9]+-)?([a-z0-9]+(?:-[a-z0-9]+)*)")
LARGEST = 200_000
_AT_LINE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_TRAITS = [field.name for field in fields(Expected)]
# Written as one value or a list of them; a parameter of a list of lists is one of several.
_LISTS = ("who", "parameters", "without", "status", "serves", "serves_only", "same_as")
_TEXTS = ("title", "level", "goal")
_KINDS = ("request", "requests", "question", "consent", "revocation")
# The traits that are no text, and the sentence for another value.
_KINDS_OF_TRAITS: Mapping[str, tuple[type, str]] = {
    "serves_at_least": (int, _("%(name)s must be an integer.")),
    **dict.fromkeys(("continues", "exactly"), (bool, _("%(name)s must be true or false."))),
}


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
    # Of its texts; empty where nobody knows.
    language: str = ""

    @property
    def senders(self) -> frozenset[str]:
        """Whose requests count: you, patient, app, backend, nobody."""
        expected = (request for check in self.checks for request in check.requests)
        return frozenset(who for request in expected for who in request.who) or frozenset({YOU})


class LessonFault(NamedTuple):
    """Why a file is no lesson; line is 0 where it is about the whole."""

    path: Path
    line: int
    sentence: str


class _Unreadable(Exception):
    """A file is no lesson; str() is a sentence, line where in the front matter, 0 for the whole."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.line = line


def lessons() -> tuple[Sequence[Lesson], Sequence[LessonFault]]:
    """Return the lessons in their order, and what cannot be read."""
    known: dict[str, Lesson] = {}
    faults: list[LessonFault] = []
    own = settings().lessons
    for folder in [_OURS, *([Path(own)] if own else [])]:
        if not folder.is_dir():
            faults.append(
                LessonFault(folder, 0, _("This folder of FHIRAPP_LESSONS does not exist."))
            )
        for path in sorted(folder.glob("*.md")):
            lesson = _read(path)
            if isinstance(lesson, LessonFault):
                faults.append(lesson)
            elif lesson.name in (*known, *_NO_LESSONS):
                sentence = _("The page %(name)s already exists. Rename the file.", name=lesson.name)
                faults.append(LessonFault(path, 0, sentence))
            else:
                known[lesson.name] = _translated(lesson, path) if folder == _OURS else lesson
    return [*known.values()], faults


def _translated(lesson: Lesson, path: Path) -> Lesson:
    """Return a lesson of ours in the language of the page; in English where it has no other."""
    other = path.parent / language() / path.name
    if not other.is_file():
        return replace(lesson, language=ENGLISH)
    return translation(lesson, other, other.stat().st_mtime_ns)


@lru_cache(maxsize=500)
def translation(lesson: Lesson, path: Path, _changed: int) -> Lesson:
    """Return a lesson with what a file says in another language. Raises _Unreadable."""
    front, text = _parts(path.read_bytes())
    return replace(lesson, text=text, language=path.parent.name, **front.texts(lesson.checks))


def _read(path: Path) -> Lesson | LessonFault:
    try:
        about = path.stat()
        return _cached(path, about.st_mtime_ns, about.st_size, language())
    except OSError as error:
        return LessonFault(
            path, 0, _("The file cannot be read: %(reason)s.", reason=error.strerror)
        )


@lru_cache(maxsize=500)
def _cached(path: Path, _changed: int, size: int, _language: str) -> Lesson | LessonFault:
    """Return a lesson as it stood in its file when that was changed last. Raises OSError."""
    try:
        if size > LARGEST:
            raise _Unreadable(_("The file is larger than %(most)s bytes.", most=LARGEST))
        return parse(path.stem, path.read_bytes())
    except _Unreadable as error:
        return LessonFault(path, error.line, str(error))


def parse(stem: str, content: bytes) -> Lesson:
    """Return the lesson of a file's name and content. Raises _Unreadable."""
    name = _NAME.fullmatch(stem)
    if name is None:
        raise _Unreadable(
            _(
                "Use lowercase letters, digits and hyphens in the file name, for example "
                "20-my-lesson.md."
            )
        )
    front, text = _parts(content)
    return Lesson(name=name[1], text=text, **front.lesson())


def _parts(content: bytes) -> tuple[_Front, str]:
    """Return the front matter of a file, and the text after it. Raises _Unreadable."""
    try:
        # An editor may have put a mark before it.
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise _Unreadable(_("The file is not UTF-8. Save it in that encoding.")) from None
    if not lines or lines[0].rstrip() != _FENCE:
        raise _Unreadable(_("The first line must be +++ and nothing else."), 1)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise _Unreadable(_("The second +++ line, before the text, is missing."), len(lines))
    return _Front(lines[1:end]), "\n".join(lines[end + 1 :])


class _Front:
    """The front matter: what a file has between its two lines +++, in TOML."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        try:
            self._table = tomllib.loads("\n".join(lines))
        except (ValueError, RecursionError) as error:
            # RecursionError: brackets in brackets, and so on.
            match = _AT_LINE.fullmatch(str(error))
            reason, line = (match[1], match[2]) if match else (str(error), None)
            place = int(line) + 1 if line else len(lines) + 1
            raise _Unreadable(
                _("This is not valid TOML: %(reason)s.", reason=reason), place
            ) from None

    def lesson(self) -> Mapping[str, Any]:
        """Return the fields of the lesson. Raises _Unreadable."""
        table = self._table
        self._no_others(table, (*_TEXTS, "minutes", "hints", "checks", "person"), "a lesson")
        for name in _TEXTS:
            sentence = _("%(name)s is missing. It must be a string.", name=name)
            self._need(_is_text(table.get(name)), sentence, name)
        is_number = type(table.get("minutes")) is int
        self._need(is_number, _("minutes is missing. It must be an integer."), "minutes")
        person = table.get("person", "")
        self._need(isinstance(person, str), _("person must be a user name, as a string."), "person")
        checks = table.get("checks")
        self._need(
            isinstance(checks, list) and bool(checks),
            _("[[checks]] is missing. A lesson needs at least one check."),
            "checks",
        )
        return {name: table[name] for name in (*_TEXTS, "minutes")} | {
            "person": person,
            "hints": self._texts(table.get("hints", []), "hints"),
            "checks": tuple(self._checks(table["checks"])),
        }

    def texts(self, checks: Sequence[Check]) -> Mapping[str, Any]:
        """Return the texts of a lesson in another language; its checks are the same."""
        table = self._table
        self._no_others(table, (*_TEXTS, "hints", "says"), "a translation")
        says = self._texts(table.get("says"), "says")
        return {name: table[name] for name in _TEXTS} | {
            "hints": self._texts(table.get("hints", []), "hints"),
            "checks": tuple(
                replace(check, shown=sentence) for check, sentence in zip(checks, says, strict=True)
            ),
        }

    def _checks(self, checks: Sequence[Any]) -> Iterator[Check]:
        sentences: set[str] = set()
        for number, check in enumerate(checks):
            self._need(isinstance(check, dict), _("Write each check as [[checks]]."), "checks")
            says = check.get("says")
            missing = _("says is missing. It must say what to do.")
            self._need(_is_text(says), missing, "[[checks]]", number)
            self._need(says not in sentences, _("Two checks have the same text."), "says", number)
            sentences.add(says)
            self._no_others(check, ("says", *_KINDS), "a check")
            self._need(
                sum(kind in check for kind in _KINDS) == 1,
                _(
                    "A check must have exactly one of request, requests, question, consent and "
                    "revocation."
                ),
                "[[checks]]",
                number,
            )
            yield self._check(says, check)

    def _check(self, says: str, check: Mapping[str, Any]) -> Check:
        if "question" in check:
            question = check["question"]
            self._are_texts(question, ("address", "answer"), "question")
            is_ours = question["address"].startswith("/fhir/")
            self._need(is_ours, _("address must start with /fhir/."), "address")
            return Check(says=says, question=Question(question["address"], question["answer"]))
        if "revocation" in check:
            self._are_texts(check["revocation"], ("client_id",), "revocation")
            return Check(says=says, revocation=check["revocation"]["client_id"])
        if "consent" in check:
            consent = check["consent"]
            has_scope = isinstance(consent, dict) and "scope" in consent
            names = ("client_id", "scope") if has_scope else ("client_id",)
            self._are_texts(consent, names, "consent")
            scope = consent.get("scope", "")
            return Check(says=says, consent=consent["client_id"], consent_scope=scope)
        requests = check.get("requests", [check.get("request")])
        self._need(
            isinstance(requests, list) and bool(requests),
            _("Write each request as [[checks.requests]]."),
            "requests",
        )
        return Check(says=says, requests=tuple(map(self._expected, requests)))

    def _expected(self, request: Any) -> Expected:
        has_traits = isinstance(request, dict) and bool(request)
        self._need(has_traits, _("A request must have at least one trait."), "request")
        self._no_others(request, _TRAITS, "a request")
        values = {name: self._trait(name, value) for name, value in request.items()}
        for name, known in (("who", WHO), ("interaction", INTERACTIONS)):
            value = values.get(name, ())
            sentence = _("%(name)s must be one of %(known)s.", name=name, known=", ".join(known))
            self._need(
                {*(value if isinstance(value, tuple) else [value])} <= {*known}, sentence, name
            )
        return Expected(**values)

    def _trait(self, name: str, value: Any) -> Any:
        """Return the value of a trait as Expected has it."""
        if name not in _LISTS:
            kind, sentence = _KINDS_OF_TRAITS.get(name, (str, _("%(name)s must be a string.")))
            self._need(type(value) is kind, _(sentence, name=name), name)
            return value
        values = value if isinstance(value, list) else [value]
        if name == "status":
            are_numbers = all(type(number) is int for number in values)
            self._need(are_numbers, _("status must be a number or a list of numbers."), name)
            return tuple(values)
        if name != "parameters":
            return self._texts(values, name)
        alternatives = [item if isinstance(item, list) else [item] for item in values]
        self._need(all(alternatives), _("A list of parameters must not be empty."), name)
        return tuple(self._texts(texts, name) for texts in alternatives)

    def _texts(self, values: Any, name: str) -> tuple[str, ...]:
        are_texts = isinstance(values, list) and all(
            isinstance(value, str) and value for value in values
        )
        self._need(are_texts, _("%(name)s must be a list of strings.", name=name), name)
        return tuple(values)

    def _are_texts(self, table: Any, names: Sequence[str], of: str) -> None:
        """Raise _Unreadable unless a table has these texts and nothing else."""
        self._need(isinstance(table, dict), _("Write it as [checks.%(of)s].", of=of), of)
        self._no_others(table, names, f"a {of}")
        for name in names:
            sentence = _("The %(of)s needs %(name)s, a string.", of=of, name=name)
            self._need(isinstance(table.get(name), str) and bool(table[name]), sentence, of)

    def _no_others(self, table: Iterable[str], known: Iterable[str], of: str) -> None:
        for name in table:
            sentence = _(
                "%(name)s is not a key of %(of)s. Known keys: %(known)s.",
                name=name,
                of=of,
                known=", ".join(known),
            )
            self._need(name in known, sentence, name)

    def _need(self, condition: bool, sentence: str, name: str, number: int = 0) -> None:
        """Raise _Unreadable unless the condition holds, with the first line that has the name.

        number chooses a later one: 1 the second.
        """
        if not condition:
            pattern = re.compile(rf"\W*(?:checks\.)?{re.escape(name.strip('[]'))}\b")
            places = [n for n, line in enumerate(self._lines, 2) if pattern.match(line)]
            raise _Unreadable(sentence, places[min(number, len(places) - 1)] if places else 1)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())

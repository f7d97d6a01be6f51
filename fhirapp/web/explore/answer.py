"""An answer in words, before anything else: what came, how much, how long; or what was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, NamedTuple

from fhirapp.store.definition import Definition
from fhirapp.web.ask import Answer
from fhirapp.web.explore.explained import issues_of
from fhirapp.web.texts import _

# A body is parsed and shown up to here; what is longer is fetched whole, up to there.
MOST_BYTES = 8 * 1024 * 1024
MOST_WHOLE = 64 * 1024 * 1024
MOST_RAW = 60_000
_TEXT = ("text/", "application/json", "application/fhir+json", "application/fhir+ndjson")


class Refused(NamedTuple):
    """Why a request was refused: the parameter, where it lies in one, and what may be right."""

    parameter: str
    sentence: str
    advice: str = ""


class Shown(NamedTuple):
    """An answer, told: in a sentence, then what there is of it; content is its JSON, if it has any.

    raw is the body as text, as far as it is shown, None where it is no text.
    """

    line: str
    sentence: str
    found: str
    size: str
    time: str
    content: Any
    issues: Sequence[Mapping[str, Any]]
    refused: Sequence[Refused]
    raw: str | None
    is_cut: bool


def shown(answer: Answer, searched: Definition | None, *, is_bytes: bool = False) -> Shown:
    """Return what an answer says.

    Of is_bytes, which may be those of a Binary, nothing is made: they may be any JSON.
    """
    content = None if is_bytes and answer.status < 400 else _content(answer)
    issues = issues_of(content) if content is not None else ()
    kind = answer.headers.get("Content-Type", "")
    is_text = kind.startswith(_TEXT) or not answer.body
    raw = answer.body[:MOST_RAW].decode(errors="replace") if is_text else None
    return Shown(
        _line(answer),
        _sentence(answer.status),
        _found(content),
        _size(answer.size),
        _time(answer.seconds),
        content,
        issues,
        _refused(issues, searched) if answer.status >= 400 else (),
        raw,
        is_text and len(answer.body) > MOST_RAW,
    )


def _content(answer: Answer) -> Any:
    if "json" not in answer.headers.get("Content-Type", "") or len(answer.body) > MOST_BYTES:
        return None
    try:
        return answer.json()
    except ValueError:
        return None


def _line(answer: Answer) -> str:
    """Return the status as people know it: 404 Not Found."""
    try:
        return f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        return answer.line


def _sentence(status: int) -> str:
    """Return what a status means, for whoever asked; empty where the answer speaks for itself."""
    told = {
        202: _("It was taken on, and goes on by itself: Content-Location says where to ask."),
        304: _("Nothing changed: the copy you have still holds, so no body came."),
        400: _("The server could not read this request as it stands."),
        401: _("The token is not valid, or not valid any more. Sign in again."),
        403: _("Your token does not reach this far."),
        404: _("There is no such record or address here, or you may not see it."),
        405: _("This server only reads: such a request it does not take."),
        406: _("The Accept header, or _format, allows nothing that this server can answer."),
        410: _("This record was deleted. Its history may still be read."),
        412: _("The condition in your headers does not hold."),
        413: _("What you sent is too long."),
        414: _("The address is too long. Send the search as POST."),
        429: _("Too many requests. Wait a while."),
        431: _("The headers are too long."),
        503: _("The server is busy. Wait a moment, and send it again."),
    }
    if status in told:
        return told[status]
    if status >= 500:
        return _("It was a mistake of this server's, not yours.")
    return _("The request was refused.") if status >= 400 else ""


def _refused(issues: Sequence[Mapping[str, Any]], searched: Definition | None) -> Sequence[Refused]:
    found = []
    for issue in issues:
        parameter = str(next(iter(issue.get("expression", ())), "")).removeprefix("http.")
        sentence = str(issue.get("diagnostics") or issue.get("details", {}).get("text", ""))
        sentence = sentence.removeprefix(f"{parameter}: ") if parameter else sentence
        if sentence and not sentence.endswith((".", "!", "?", "…")):
            sentence += "."
        # The server says most of it itself.
        advice = "" if "did you mean" in sentence else _advice(parameter, searched)
        found.append(Refused(parameter, sentence, advice))
    return found


def _advice(parameter: str, searched: Definition | None) -> str:
    """Return what to do about a parameter that the type does not have."""
    name = parameter.partition(":")[0]
    if searched is None or not name or name in searched.params.by_name:
        return ""
    first = name.partition(".")[0]
    if first != name:
        return _(
            "No chain is followed here: find the id first, then search by %(name)s.", name=first
        )
    near = get_close_matches(name, [*searched.params.by_name], 1)
    return _("Did you mean %(name)s?", name=near[0]) if near else ""


def _found(content: Any) -> str:
    """Return how many there are in an answer, or which record it is."""
    if not isinstance(content, dict):
        return ""
    kind = content.get("resourceType", "")
    if kind == "Bundle":
        entries = content.get("entry", ())
        if content.get("type") == "history":
            total = content.get("total", len(entries))
            return _("1 version") if total == 1 else _("%(count)s versions", count=total)
        matches = [one for one in entries if one.get("search", {}).get("mode") == "match"]
        total = content.get("total")
        if total is None:
            return _("%(count)s on this page", count=len(matches) or len(entries))
        hits = _("1 hit") if total == 1 else _("%(count)s hits", count=total)
        return (
            hits
            if len(matches) in (0, total)
            else _("%(hits)s, %(count)s of them here", hits=hits, count=len(matches))
        )
    if kind == "OperationOutcome" or "id" not in content:
        return ""
    version = content.get("meta", {}).get("versionId")
    name = f"{kind}/{content['id']}"
    return _("%(name)s, version %(version)s", name=name, version=version) if version else name


def _size(count: int) -> str:
    if count < 1000:
        return _("%(count)s bytes", count=count)
    return f"{count / 1000:.1f} kB" if count < 999_950 else f"{count / 1_000_000:.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 9.9995 else f"{seconds:.1f} s"

"""A patient's allergies as the text of a section of a document, for people to read.

Every entry but those that were entered in error is listed: what may hurt first. What is refuted or
over is listed as such; that nothing is recorded never reads as "none known".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from fhirapp.clinical.contradictions import findings_of, other_records
from fhirapp.clinical.summary import SummaryEntry, SummaryGroup, conclusion_of
from fhirapp.fhir.narrative import written
from fhirapp.fhir.words import reactions_in_words, worded

# Of groups that hold no more, or never did: what a person must not overlook.
STANDINGS: Mapping[SummaryGroup, str] = {
    SummaryGroup.IN_ERROR: worded("Entered in error. This entry is not valid. Do not rely on it."),
    # Of an allergy as of "none known".
    SummaryGroup.REFUTED: worded("Refuted. This is recorded as not true."),
    SummaryGroup.PAST: worded("Resolved or inactive. This is recorded as no longer active."),
}


def section(
    patient: Mapping[str, Any], entries: Sequence[SummaryEntry]
) -> tuple[Sequence[SummaryEntry], str]:
    """Return the entries that a document lists, and their text: XHTML to stand in a div."""
    listed = [entry for entry in entries if entry.group is not SummaryGroup.IN_ERROR]
    return listed, "".join(_lines(patient, listed, len(entries) - len(listed)))


def _lines(
    patient: Mapping[str, Any], listed: Sequence[SummaryEntry], in_error: int
) -> Iterator[str]:
    yield f"<p>{written(conclusion_of(listed).text)}</p>"
    for finding in (*findings_of(listed), *other_records(patient)):
        yield f"<p><b>{written(worded('Check:'))}</b> {written(finding.text)}</p>"
    for heading, members in groupby(listed, _heading):
        yield f"<p><b>{written(heading)}</b></p><ul>{''.join(map(_item, members))}</ul>"
    if in_error:
        text = worded("Not listed, since they were entered in error: %(count)s.", count=in_error)
        yield f"<p>{written(text)}</p>"
    if listed:
        yield f"<p>{written(worded('Listed as recorded. Not clinical decision support.'))}</p>"


def _heading(entry: SummaryEntry) -> str:
    # Alone, "None known" would read as if it were about all allergies.
    if entry.group in (
        SummaryGroup.NONE_KNOWN,
        SummaryGroup.NO_INFORMATION,
        SummaryGroup.NOT_ASKED,
    ):
        return worded("Statements about allergies")
    return worded(STANDINGS.get(entry.group, entry.group.title))


def _item(entry: SummaryEntry) -> str:
    severe = f" <b>({written(entry.why_severe)})</b>" if entry.is_severe else ""
    parts = "<br/>".join(map(written, filter(None, _parts(entry))))
    return f"<li><b>{written(_name(entry))}</b>{severe}<br/>{parts}</li>"


def _name(entry: SummaryEntry) -> str:
    # As HL7 writes it for machines.
    if entry.substance == "NoInformation":
        return worded("No information")
    return entry.substance or worded("Substance not recorded")


def _parts(entry: SummaryEntry) -> Iterator[str]:
    """Yield what is recorded of an entry beside its name, a line each."""
    if entry.coded_as:
        yield f"{worded('coded as')} {', '.join(entry.coded_as)}"
    if entry.is_allergy:
        yield ", ".join(worded(code) for code in (entry.type, *entry.categories) if code)
        yield reactions_in_words(entry.reactions)
    codes = (entry.clinical_status, entry.verification_status)
    yield ", ".join([*(worded(code) for code in codes if code), *entry.faults, *entry.missing])
    dates = (
        (worded("onset"), entry.onset),
        (worded("last occurred"), entry.last_occurrence),
        (worded("recorded"), entry.recorded),
    )
    yield ", ".join(f"{label} {day}" for label, day in dates if day)
    people = ((worded("recorded by"), entry.recorder), (worded("reported by"), entry.asserter))
    for label, who in people:
        yield f"{label} {who['display']}" if who.get("display") else ""
    for comment in entry.comments:
        yield f"{worded('Note:')} {comment}"

"""C-CDA documents about given people."""

from __future__ import annotations

HOUSEHOLD, RECORD, OTHER = "2.999.1", "2.999.2", "2.999.3"


def document(
    name: str,
    *numbers: tuple[str, str],
    given: str = "Adam",
    gender: str = "M",
    born: str = "20150301",
    visit: str = "V1",
) -> bytes:
    """Return a document, with an allergy, of a person with these numbers: (root, extension)."""
    identified = "".join(f'<id root="{root}" extension="{value}"/>' for root, value in numbers)
    return f"""<ClinicalDocument xmlns="urn:hl7-org:v3">
      <id root="2.999.9" extension="{name}"/>
      <code code="34133-9" codeSystem="2.16.840.1.113883.6.1"/>
      <title>{name}</title><effectiveTime value="20260101120000+0000"/>
      <recordTarget><patientRole>{identified}<patient>
        <name><given>{given}</given><family>Doe</family></name>
        <administrativeGenderCode code="{gender}" codeSystem="2.16.840.1.113883.5.1"/>
        <birthTime value="{born}"/></patient></patientRole></recordTarget>
      <componentOf><encompassingEncounter><id root="2.999.8" extension="{visit}"/>
        <effectiveTime><low value="20260101"/></effectiveTime></encompassingEncounter></componentOf>
      <component><structuredBody><component><section>
        <templateId root="2.16.840.1.113883.10.20.22.2.6.1"/>
        <code code="48765-2" codeSystem="2.16.840.1.113883.6.1"/>
        <entry><act classCode="ACT" moodCode="EVN">
          <templateId root="2.16.840.1.113883.10.20.22.4.30"/>
          <id root="2.999.7" extension="{name}"/>
          <code code="CONC" codeSystem="2.16.840.1.113883.5.6"/><statusCode code="active"/>
          <effectiveTime><low value="20250101"/></effectiveTime>
          <entryRelationship typeCode="SUBJ"><observation classCode="OBS" moodCode="EVN">
            <templateId root="2.16.840.1.113883.10.20.22.4.7"/>
            <id root="2.999.7" extension="{name}-1"/>
            <code code="ASSERTION" codeSystem="2.16.840.1.113883.5.4"/>
            <statusCode code="completed"/><effectiveTime><low value="20250101"/></effectiveTime>
            <value xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CD"
              code="414285001" codeSystem="2.16.840.1.113883.6.96"/>
            <participant typeCode="CSM"><participantRole classCode="MANU"><playingEntity>
              <code code="762952008" codeSystem="2.16.840.1.113883.6.96" displayName="Peanut"/>
            </playingEntity></participantRole></participant>
          </observation></entryRelationship></act></entry>
      </section></component></structuredBody></component>
    </ClinicalDocument>""".encode()

-- seed.sql: the demo database, and the fixture of all tests.
--
-- Fictional people, places and numbers. INSERTs only, grouped by type. Read it with service.md beside you.
--
--   One row is one version: (id, version_id). A deletion is a version too and holds nothing else (deleted = TRUE).
--   A column is a FHIR element in snake_case. Text, numbers and TRUE/FALSE stand plain; everything complex, and
--   every list, is FHIR JSON.
--   extra holds the elements without a column: language, contained, extensions, extensions of primitives.
--   NULL is "not there". text is NULL nearly everywhere, because the server writes the narrative; so are size,
--   hash and data of an attachment, because they follow from the binary.
--
-- Who is who
--   p1  Amelia Hartwell     every must-support element of US Core (with p2); three-version discharge summary
--   p2  Luis Ortega Ruiz    Spanish; unknown reaction, unknown route; two codings
--   p3  Noah Lindqvist      child; egg allergy: suspected, confirmed, outgrown; mother: rp-lindqvist
--   p4  Grace Okafor        no known drug allergy (NKDA) is her one allergy entry
--   p5  Walter Brandt       died in 2025; a deleted allergy, a deleted document, an unknown substance
--   p6  Mei-Ling Tan        NoInformation (NI)
--   p7  Samuel Whitefeather contained recorder and extensions; refuted; a document entered in error
--   p8  Priya Raghunathan   seven allergies; category biologic; narratives written by hand
--   p9  Tobias Ekström      laboratory results without content, and nothing else
--   p10 Hannah Feldman      the same
--   p11 Ruth Abernathy      nothing at all
--   p12 Daniel Kowalczyk    penicillin refuted; superseded and restricted documents
--   p13 Theo Okafor         newborn of p4; no known allergy
--   p14 Dan Kowalczyk       the duplicate record of p12 (Patient.link)


-- ==== Organization ==========================================================

INSERT INTO organization (
  id, version_id, last_updated, meta, identifier, active, name, alias, type, telecom, address, part_of
) VALUES
  -- The hospital. Northgate is a part of it.
  ('org-lakeside', 1, '2023-01-02T08:00:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-organization"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901009"}]',
   TRUE, 'Lakeside General Hospital', '["Lakeside", "LGH"]',
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/organization-type", "code": "prov",
        "display": "Healthcare Provider"}]}]',
   '[{"system": "phone", "value": "555-0100", "use": "work"},
     {"system": "email", "value": "info@lakeside.example", "use": "work"}]',
   '[{"line": ["1 Harbor View Drive"], "city": "Port Alder", "state": "WA", "postalCode": "98299", "country": "US"}]',
   NULL),
  ('org-northgate', 1, '2023-01-02T08:01:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-organization"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901017"}]',
   TRUE, 'Northgate Family Medicine', NULL,
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/organization-type", "code": "prov",
        "display": "Healthcare Provider"}]}]',
   '[{"system": "phone", "value": "555-0110", "use": "work"}]',
   '[{"line": ["420 Northgate Avenue, Suite 3"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('org-harbor', 1, '2023-01-02T08:02:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-organization"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901025"}]',
   TRUE, 'Harbor Allergy and Asthma Center', NULL,
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/organization-type", "code": "prov",
        "display": "Healthcare Provider"}]}]',
   '[{"system": "phone", "value": "555-0120", "use": "work"},
     {"system": "url", "value": "https://harbor-allergy.example"}]',
   '[{"line": ["77 Ferry Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299", "country": "US"}]',
   NULL),
  -- A laboratory has a CLIA number as well.
  ('org-meridian', 1, '2023-01-02T08:03:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-organization"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901033"},
     {"system": "urn:oid:2.16.840.1.113883.4.7", "value": "99D0000123"}]',
   TRUE, 'Meridian Reference Laboratory', NULL,
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/organization-type", "code": "prov",
        "display": "Healthcare Provider"}]}]',
   '[{"system": "phone", "value": "555-0130", "use": "work"}]',
   '[{"line": ["9 Foundry Road"], "city": "Millbrook", "state": "WA", "postalCode": "98298", "country": "US"}]',
   NULL);


-- ==== Practitioner ==========================================================

INSERT INTO practitioner (
  id, version_id, last_updated, meta, identifier, active, gender, birth_date, name, telecom, address, qualification,
  communication
) VALUES
  ('dr-adeyemi', 1, '2023-01-03T08:11:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901041"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Adeyemi", "given": ["Folake"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0111", "use": "work"},
     {"system": "email", "value": "adeyemi@northgate.example", "use": "work"}]',
   '[{"line": ["420 Northgate Avenue, Suite 3"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Family medicine"}}]',
   NULL),
  ('dr-lindholm', 1, '2023-01-03T08:12:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901058"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Lindholm", "given": ["Karin"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0112", "use": "work"},
     {"system": "email", "value": "lindholm@northgate.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Pediatrics"}}]',
   '[{"coding": [{"system": "urn:ietf:bcp:47", "code": "sv", "display": "Swedish"}], "text": "Swedish"}]'),
  ('dr-castellanos', 1, '2023-01-03T08:01:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901066"}]',
   TRUE, 'male', NULL,
   '[{"use": "official", "family": "Castellanos", "given": ["Rafael"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0101", "use": "work"},
     {"system": "email", "value": "castellanos@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Emergency medicine"}}]',
   '[{"coding": [{"system": "urn:ietf:bcp:47", "code": "es", "display": "Spanish"}], "text": "Spanish"}]'),
  ('dr-sato', 1, '2023-01-03T08:02:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901074"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Sato", "given": ["Keiko"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0102", "use": "work"},
     {"system": "email", "value": "sato@lakeside.example", "use": "work"}]',
   '[{"line": ["1 Harbor View Drive"], "city": "Port Alder", "state": "WA", "postalCode": "98299", "country": "US"}]',
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Internal medicine and cardiology"}}]',
   NULL),
  ('dr-novak', 1, '2023-01-03T08:03:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901082"}]',
   TRUE, 'male', '1971-05-30',
   '[{"use": "official", "family": "Novak", "given": ["Petr"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0103", "use": "work"},
     {"system": "email", "value": "novak@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "General surgery"}}]',
   NULL),
  ('dr-haverford', 1, '2023-01-03T08:04:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901090"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Haverford", "given": ["Simone"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0104", "use": "work"},
     {"system": "email", "value": "haverford@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Orthopedic surgery"}}]',
   NULL),
  ('dr-farrow', 1, '2023-01-03T08:05:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901108"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Farrow", "given": ["Elaine"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0105", "use": "work"},
     {"system": "email", "value": "farrow@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Obstetrics and gynecology"}}]',
   NULL),
  ('dr-mensah', 1, '2023-01-03T08:06:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901116"}]',
   TRUE, 'male', NULL,
   '[{"use": "official", "family": "Mensah", "given": ["Kofi"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0106", "use": "work"},
     {"system": "email", "value": "mensah@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Diagnostic radiology"}}]',
   NULL),
  ('dr-whitmore', 1, '2023-01-03T08:21:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901124"}]',
   TRUE, 'male', NULL,
   '[{"use": "official", "family": "Whitmore", "given": ["Julian"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0121", "use": "work"},
     {"system": "email", "value": "whitmore@harbor.example", "use": "work"}]',
   '[{"line": ["77 Ferry Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299", "country": "US"}]',
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Allergy and immunology"}}]',
   NULL),
  ('dr-rosen', 1, '2023-01-03T08:31:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901132"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Rosen", "given": ["Miriam"], "prefix": ["Dr."]}]',
   '[{"system": "phone", "value": "555-0131", "use": "work"},
     {"system": "email", "value": "rosen@meridian.example", "use": "work"}]',
   '[{"line": ["9 Foundry Road"], "city": "Millbrook", "state": "WA", "postalCode": "98298", "country": "US"}]',
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "MD",
         "display": "Doctor of Medicine"}],
       "text": "Pathology"}}]',
   NULL),
  ('np-delgado', 1, '2023-01-03T08:13:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901140"}]',
   TRUE, 'female', NULL,
   '[{"use": "official", "family": "Delgado", "given": ["Ana"], "suffix": ["NP"]}]',
   '[{"system": "phone", "value": "555-0113", "use": "work"},
     {"system": "email", "value": "delgado@northgate.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "NP",
         "display": "Nurse Practitioner"}],
       "text": "Psychiatric and palliative care"}}]',
   NULL),
  ('rn-brooks', 1, '2023-01-03T08:07:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-practitioner"]}',
   '[{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901157"}]',
   TRUE, 'male', NULL,
   '[{"use": "official", "family": "Brooks", "given": ["Tyrone"], "suffix": ["RN"]}]',
   '[{"system": "phone", "value": "555-0107", "use": "work"},
     {"system": "email", "value": "brooks@lakeside.example", "use": "work"}]',
   NULL,
   '[{"code": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0360", "code": "RN",
         "display": "Registered Nurse"}],
       "text": "Emergency nursing"}}]',
   NULL);


-- ==== Patient ===============================================================

INSERT INTO patient (
  id, version_id, last_updated, meta, identifier, active, gender, birth_date, deceased_boolean, deceased_date_time,
  multiple_birth_boolean, name, telecom, address, marital_status, communication, contact, general_practitioner,
  managing_organization, link, extra
) VALUES
  -- p1 and p2 show every must-support element of US Core between them.
  ('p1', 1, '2023-01-09T10:12:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100237"}]',
   TRUE, 'female', '1958-04-12', NULL, NULL, NULL,
   '[{"use": "official", "family": "Hartwell", "given": ["Amelia", "Rose"], "prefix": ["Mrs."]}]',
   '[{"system": "phone", "value": "555-0141", "use": "home"},
     {"system": "email", "value": "amelia.hartwell@mail.example", "use": "home"}]',
   '[{"use": "home", "line": ["27 Lantern Lane"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   '[{"relationship": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "SPS",
          "display": "Spouse"}]}],
      "name": {"family": "Hartwell", "given": ["George"]},
      "telecom": [{"system": "phone", "value": "555-0141", "use": "home"}]}]',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "F"}]}'),
  -- Spanish is his language: see al-p2-mariscos and doc-p2-progress-2025.
  ('p2', 1, '2023-05-30T13:40:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100274"}]',
   TRUE, 'male', '1989-09-23', NULL, NULL, NULL,
   '[{"use": "official", "family": "Ortega Ruiz", "given": ["Luis", "Fernando"]}]',
   '[{"system": "phone", "value": "555-0142", "use": "mobile"}]',
   '[{"use": "home", "line": ["113 Cannery Row, Apt 5"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "S",
       "display": "Never Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "es", "display": "Spanish"}]}, "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2135-2",
          "display": "Hispanic or Latino"}},
        {"url": "detailed",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2148-5", "display": "Mexican"}},
        {"url": "text", "valueString": "Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  -- A child with food allergies and asthma.
  ('p3', 1, '2023-02-20T09:00:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100311"}]',
   TRUE, 'male', '2017-02-05', NULL, NULL, NULL,
   '[{"use": "official", "family": "Lindqvist", "given": ["Noah"]}]',
   '[{"system": "phone", "value": "555-0143", "use": "home"}]',
   '[{"use": "home", "line": ["64 Birch Court"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL,
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   '[{"relationship": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "MTH",
          "display": "mother"}]}],
      "name": {"family": "Lindqvist", "given": ["Sara"]},
      "telecom": [{"system": "phone", "value": "555-0143", "use": "home"}]}]',
   '[{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  -- Her only allergy entry says that she has no drug allergy. Mother of p13.
  ('p4', 1, '2024-03-04T11:20:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100348"}]',
   TRUE, 'female', '1994-07-30', NULL, NULL, NULL,
   '[{"use": "official", "family": "Okafor", "given": ["Grace", "Adaeze"]}]',
   '[{"system": "phone", "value": "555-0144", "use": "mobile"}]',
   '[{"use": "home", "line": ["5 Miller Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2054-5",
          "display": "Black or African American"}},
        {"url": "text", "valueString": "Black or African American"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "F"}]}'),
  -- Two versions: the second records his death.
  ('p5', 1, '2023-07-11T08:30:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100385"}]',
   TRUE, 'male', '1941-11-02', NULL, NULL, NULL,
   '[{"use": "official", "family": "Brandt", "given": ["Walter", "Emil"], "prefix": ["Mr."]}]',
   '[{"system": "phone", "value": "555-0145", "use": "home"}]',
   '[{"use": "home", "line": ["8 Orchard Hill Road"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   '[{"relationship": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "SPS",
          "display": "Spouse"}]}],
      "name": {"family": "Brandt", "given": ["Ilse"]},
      "telecom": [{"system": "phone", "value": "555-0145", "use": "home"}]}]',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  ('p5', 2, '2025-03-04T09:05:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100385"}]',
   TRUE, 'male', '1941-11-02', NULL, '2025-03-02T04:40:00+00:00', NULL,
   '[{"use": "official", "family": "Brandt", "given": ["Walter", "Emil"], "prefix": ["Mr."]}]',
   '[{"system": "phone", "value": "555-0145", "use": "home"}]',
   '[{"use": "home", "line": ["8 Orchard Hill Road"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   '[{"relationship": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "SPS",
          "display": "Spouse"}]}],
      "name": {"family": "Brandt", "given": ["Ilse"]},
      "telecom": [{"system": "phone", "value": "555-0145", "use": "home"}]}]',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  -- Nobody could ask her about allergies yet: NoInformation.
  ('p6', 1, '2024-01-15T15:10:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100422"}]',
   TRUE, 'female', '1972-12-19', NULL, NULL, NULL,
   '[{"use": "official", "family": "Tan", "given": ["Mei-Ling"]}]',
   '[{"system": "phone", "value": "555-0146", "use": "home"}]',
   '[{"use": "home", "line": ["301 Market Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "D",
       "display": "Divorced"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "zh", "display": "Chinese"}]}, "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2028-9", "display": "Asian"}},
        {"url": "text", "valueString": "Asian"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "F"}]}'),
  -- Seen once after a bee sting.
  ('p7', 1, '2024-08-17T16:02:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100459"}]',
   TRUE, 'male', '2001-06-08', FALSE, NULL, NULL,
   '[{"use": "official", "family": "Whitefeather", "given": ["Samuel", "Joseph"]}]',
   '[{"system": "phone", "value": "555-0147", "use": "mobile"}]',
   '[{"use": "home", "line": ["18 River Bend Road"], "city": "Millbrook", "state": "WA", "postalCode": "98298",
      "country": "US"}]',
   NULL,
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "1002-5",
          "display": "American Indian or Alaska Native"}},
        {"url": "text", "valueString": "American Indian or Alaska Native"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  -- Seven allergies and intolerances.
  ('p8', 1, '2023-09-12T12:00:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100496"}]',
   TRUE, 'female', '1985-03-17', NULL, NULL, NULL,
   '[{"use": "official", "family": "Raghunathan", "given": ["Priya"]}]',
   '[{"system": "phone", "value": "555-0148", "use": "mobile"},
     {"system": "email", "value": "priya.r@mail.example", "use": "home"}]',
   '[{"use": "home", "line": ["90 Hilltop Terrace"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2028-9", "display": "Asian"}},
        {"url": "text", "valueString": "Asian"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "F"}]}'),
  -- p9 and p10 have laboratory results without content, and nothing else.
  ('p9', 1, '2024-11-26T07:50:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100533"}]',
   TRUE, 'male', '1979-01-14', NULL, NULL, NULL,
   '[{"use": "official", "family": "Ekström", "given": ["Tobias"]}]',
   '[{"system": "phone", "value": "555-0149", "use": "mobile"}]',
   '[{"use": "home", "line": ["2 Quarry Close"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL,
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "sv", "display": "Swedish"}]}, "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   NULL, NULL),
  ('p10', 1, '2024-05-06T07:45:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100570"}]',
   TRUE, 'other', '1998-10-03', NULL, NULL, NULL,
   '[{"use": "official", "family": "Feldman", "given": ["Hannah", "Ruth"]}]',
   '[{"system": "phone", "value": "555-0150", "use": "mobile"}]',
   '[{"use": "home", "line": ["44 Garden Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL,
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   NULL, NULL),
  -- Newly registered: no allergy, no document, no visit.
  ('p11', 1, '2025-01-20T10:00:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100607"}]',
   TRUE, 'female', '1936-05-22', NULL, NULL, NULL,
   '[{"use": "official", "family": "Abernathy", "given": ["Ruth", "Ellen"]}]',
   '[{"system": "phone", "value": "555-0151", "use": "home"}]',
   '[{"use": "home", "line": ["Maple House, 12 Church Street"], "city": "Port Alder", "state": "WA",
      "postalCode": "98299", "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "W",
       "display": "Widowed"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL, NULL),
  -- p14 is the same man, registered twice by mistake.
  ('p12', 1, '2023-04-03T14:25:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100644"}]',
   TRUE, 'male', '1966-03-08', NULL, NULL, NULL,
   '[{"use": "official", "family": "Kowalczyk", "given": ["Daniel"]}]',
   '[{"system": "phone", "value": "555-0152", "use": "mobile"}]',
   '[{"use": "home", "line": ["39 Shipwright Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M",
       "display": "Married"}]}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]',
   NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"other": {"reference": "Patient/p14"}, "type": "replaces"}]',
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}},
        {"url": "text", "valueString": "White"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}]}'),
  -- Newborn: the birth time is a primitive extension of birthDate.
  ('p13', 1, '2025-04-19T09:15:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100681"}]',
   TRUE, 'male', '2025-04-19', NULL, NULL, FALSE,
   '[{"use": "official", "family": "Okafor", "given": ["Theo"]}]',
   '[{"system": "phone", "value": "555-0144", "use": "home"}]',
   '[{"use": "home", "line": ["5 Miller Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL, NULL,
   '[{"relationship": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "MTH",
          "display": "mother"}]}],
      "name": {"family": "Okafor", "given": ["Grace"]},
      "telecom": [{"system": "phone", "value": "555-0144", "use": "home"}]}]',
   '[{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2054-5",
          "display": "Black or African American"}},
        {"url": "text", "valueString": "Black or African American"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
       "extension": [{"url": "ombCategory",
         "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2186-5",
          "display": "Not Hispanic or Latino"}},
        {"url": "text", "valueString": "Not Hispanic or Latino"}]},
      {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex", "valueCode": "M"}],
     "_birthDate": {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/patient-birthTime",
        "valueDateTime": "2025-04-19T06:42:00+00:00"}]}}'),
  -- The duplicate of p12, no longer used.
  ('p14', 1, '2023-05-16T09:30:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"]}',
   '[{"use": "usual",
      "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR",
         "display": "Medical Record Number"}]},
      "system": "http://lakeside.example/fhir/mrn", "value": "LGH-100718"}]',
   FALSE, 'male', '1966-03-08', NULL, NULL, NULL,
   '[{"use": "official", "family": "Kowalczyk", "given": ["Dan"]}]',
   '[{"system": "phone", "value": "555-0152", "use": "mobile"}]',
   '[{"use": "home", "line": ["39 Shipwright Street"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL, NULL, NULL,
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"other": {"reference": "Patient/p12"}, "type": "replaced-by"}]',
   NULL);


-- ==== RelatedPerson =========================================================

INSERT INTO related_person (
  id, version_id, last_updated, meta, identifier, active, patient, relationship, name, telecom, gender, birth_date,
  address, photo, period, communication
) VALUES
  -- The mother of p3, who signs in as `parent` in the demo.
  ('rp-lindqvist', 1, '2023-02-20T09:05:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-relatedperson"]}',
   NULL, TRUE, '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "code": "MTH",
        "display": "mother"}]}]',
   '[{"use": "official", "family": "Lindqvist", "given": ["Sara"]}]',
   '[{"system": "phone", "value": "555-0143", "use": "home"},
     {"system": "email", "value": "sara.lindqvist@mail.example", "use": "home"}]',
   'female', '1988-09-23',
   '[{"use": "home", "line": ["64 Birch Court"], "city": "Port Alder", "state": "WA", "postalCode": "98299",
      "country": "US"}]',
   NULL, '{"start": "2017-02-05"}',
   '[{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US", "display": "English (United States)"}]},
      "preferred": true}]');


-- ==== Encounter =============================================================

-- p1, Amelia Hartwell
INSERT INTO encounter (
  id, version_id, last_updated, meta, identifier, status, class, type, subject, participant, period, reason_code,
  hospitalization, location, service_provider
) VALUES
  ('enc-p1-2023-checkup', 1, '2023-02-14T10:31:40.120+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2023-CHECKUP"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "185349003", "display": "Encounter for check up"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2023-02-14T09:15:00+00:00", "end": "2023-02-14T09:50:00+00:00"},
      "individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2023-02-14T09:15:00+00:00", "end": "2023-02-14T09:50:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "44054006", "display": "Diabetes mellitus type 2"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}'),
  -- Two versions: in progress, then finished.
  ('enc-p1-2024-pneumonia', 1, '2024-01-18T19:10:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2024-PNEUMONIA"}]',
   'in-progress',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2024-01-18T19:05:00+00:00"},
      "individual": {"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}}]',
   '{"start": "2024-01-18T19:05:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "233604007", "display": "Pneumonia"}]}]',
   NULL,
   '[{"location": {"display": "Ward 4 West"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p1-2024-pneumonia', 2, '2024-01-23T14:58:27.410+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2024-PNEUMONIA"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"},
      "individual": {"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}}]',
   '{"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "233604007", "display": "Pneumonia"}]}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Ward 4 West"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p1-2024-followup', 1, '2024-02-06T11:15:02.009+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2024-FOLLOWUP"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "390906007", "display": "Follow-up encounter"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2024-02-06T10:30:00+00:00", "end": "2024-02-06T10:55:00+00:00"},
      "individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2024-02-06T10:30:00+00:00", "end": "2024-02-06T10:55:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "233604007", "display": "Pneumonia"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}'),
  ('enc-p1-2025-allergy', 1, '2025-05-20T16:20:48.660+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2025-ALLERGY"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2025-05-20T14:00:00+00:00", "end": "2025-05-20T15:10:00+00:00"},
      "individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2025-05-20T14:00:00+00:00", "end": "2025-05-20T15:10:00+00:00"}',
   '[{"text": "Penicillin allergy: can it be removed?"}]',
   NULL, NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}');

INSERT INTO encounter (
  id, version_id, last_updated, meta, identifier, status, class, type, subject, participant, period, reason_code,
  hospitalization, location, service_provider, length, extra
) VALUES
  -- Where it was is contained; and how long it took.
  ('enc-p1-2024-ed', 1, '2024-01-18T21:40:11.300+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P1-2024-ED"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "EMER", "display": "emergency"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "50849002", "display": "Emergency room admission"}]}]',
   '{"reference": "Patient/p1"}',
   '[{"type": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType", "code": "PPRF",
          "display": "primary performer"}]}],
      "period": {"start": "2024-01-18T15:20:00+00:00", "end": "2024-01-18T19:05:00+00:00"},
      "individual": {"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}}]',
   '{"start": "2024-01-18T15:20:00+00:00", "end": "2024-01-18T19:05:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "267036007", "display": "Dyspnea"}]}]',
   NULL,
   '[{"location": {"reference": "#ed", "display": "Emergency department"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '{"value": 225, "unit": "min", "system": "http://unitsofmeasure.org", "code": "min"}',
   '{"contained": [{"resourceType": "Location", "id": "ed", "status": "active", "name": "Emergency department"}]}');

-- p2, Luis Ortega Ruiz
INSERT INTO encounter (
  id, version_id, last_updated, meta, identifier, status, class, type, subject, participant, period, reason_code,
  hospitalization, location, service_provider
) VALUES
  ('enc-p2-2023-ed', 1, '2023-06-11T08:44:10.700+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P2-2023-ED"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "EMER", "display": "emergency"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "50849002", "display": "Emergency room admission"}]}]',
   '{"reference": "Patient/p2"}',
   '[{"individual": {"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}}]',
   '{"start": "2023-06-11T03:10:00+00:00", "end": "2023-06-11T07:30:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "21522001", "display": "Abdominal pain"}]}]',
   NULL,
   '[{"location": {"display": "Emergency department"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p2-2023-appendix', 1, '2023-06-13T12:31:55.230+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P2-2023-APPENDIX"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "305408004",
        "display": "Admission to surgical department"}]}]',
   '{"reference": "Patient/p2"}',
   '[{"individual": {"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}}]',
   '{"start": "2023-06-11T07:30:00+00:00", "end": "2023-06-13T11:45:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "85189001", "display": "Acute appendicitis"}]}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Ward 2 East"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p2-2025-visit', 1, '2025-04-03T17:09:31.015+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   '[{"system": "http://lakeside.example/fhir/visit", "value": "V-P2-2025-VISIT"}]',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "185347001", "display": "Encounter for problem"}]}]',
   '{"reference": "Patient/p2"}',
   '[{"individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2025-04-03T16:00:00+00:00", "end": "2025-04-03T16:25:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "195967001", "display": "Asthma"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}');

-- p3, Noah Lindqvist
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, location,
  service_provider
) VALUES
  ('enc-p3-2023-wellchild', 1, '2023-03-09T10:20:19.550+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "410620009", "display": "Well child visit"}]}]',
   '{"reference": "Patient/p3"}',
   '[{"individual": {"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}}]',
   '{"start": "2023-03-09T09:30:00+00:00", "end": "2023-03-09T10:00:00+00:00"}',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}'),
  ('enc-p3-2024-consult', 1, '2024-02-27T12:10:10.400+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p3"}',
   '[{"individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2024-02-27T11:00:00+00:00", "end": "2024-02-27T11:50:00+00:00"}',
   '[{"text": "Egg allergy: outgrown?"}]',
   NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}'),
  ('enc-p3-2024-challenge', 1, '2024-06-25T14:22:30.810+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "390906007", "display": "Follow-up encounter"}]}]',
   '{"reference": "Patient/p3"}',
   '[{"individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2024-06-25T08:30:00+00:00", "end": "2024-06-25T13:00:00+00:00"}',
   '[{"text": "Oral food challenge, egg"}]',
   NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}'),
  ('enc-p3-2025-ed', 1, '2025-01-30T23:58:03.120+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "EMER", "display": "emergency"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "50849002", "display": "Emergency room admission"}]}]',
   '{"reference": "Patient/p3"}',
   '[{"individual": {"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}}]',
   '{"start": "2025-01-30T19:45:00+00:00", "end": "2025-01-30T23:10:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "195967001", "display": "Asthma"}]}]',
   '[{"location": {"display": "Emergency department"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}');

-- p4, Grace Okafor
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, hospitalization,
  location, service_provider
) VALUES
  ('enc-p4-2024-prenatal', 1, '2024-10-08T10:05:44.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "424619006", "display": "Prenatal visit"}]}]',
   '{"reference": "Patient/p4"}',
   '[{"individual": {"reference": "Practitioner/dr-farrow", "display": "Dr. Elaine Farrow"}}]',
   '{"start": "2024-10-08T09:15:00+00:00", "end": "2024-10-08T09:45:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "72892002", "display": "Normal pregnancy"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p4-2025-birth', 1, '2025-04-21T13:12:51.370+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}]',
   '{"reference": "Patient/p4"}',
   '[{"individual": {"reference": "Practitioner/dr-farrow", "display": "Dr. Elaine Farrow"}}]',
   '{"start": "2025-04-18T22:10:00+00:00", "end": "2025-04-21T12:30:00+00:00"}',
   '[{"text": "Labor at 39 weeks"}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Birth center"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}');

-- p5, Walter Brandt
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, hospitalization,
  location, service_provider
) VALUES
  ('enc-p5-2023-cardiology', 1, '2023-08-22T11:41:00.640+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p5"}',
   '[{"individual": {"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}}]',
   '{"start": "2023-08-22T10:00:00+00:00", "end": "2023-08-22T11:00:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "42343007", "display": "Congestive heart failure"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p5-2024-hf', 1, '2024-09-11T16:02:13.090+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}]',
   '{"reference": "Patient/p5"}',
   '[{"individual": {"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}}]',
   '{"start": "2024-09-03T18:20:00+00:00", "end": "2024-09-11T15:15:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "42343007", "display": "Congestive heart failure"}]}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Ward 5 North"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p5-2025-home', 1, '2025-02-12T13:30:05.880+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "HH", "display": "home health"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "439708006", "display": "Home visit"}]}]',
   '{"reference": "Patient/p5"}',
   '[{"individual": {"reference": "Practitioner/np-delgado", "display": "Ana Delgado, NP"}}]',
   '{"start": "2025-02-12T11:00:00+00:00", "end": "2025-02-12T12:10:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "42343007", "display": "Congestive heart failure"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}');

-- p6, Mei-Ling Tan
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, location,
  service_provider
) VALUES
  ('enc-p6-2024-colonoscopy', 1, '2024-03-27T12:48:36.200+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "308335008",
        "display": "Patient encounter procedure"}]}]',
   '{"reference": "Patient/p6"}',
   '[{"individual": {"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}}]',
   '{"start": "2024-03-27T08:00:00+00:00", "end": "2024-03-27T11:40:00+00:00"}',
   '[{"text": "Screening colonoscopy"}]',
   '[{"location": {"display": "Endoscopy unit"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}');

-- p7, Samuel Whitefeather
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, location,
  service_provider
) VALUES
  ('enc-p7-2024-sting', 1, '2024-08-17T21:31:20.560+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "EMER", "display": "emergency"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "50849002", "display": "Emergency room admission"}]}]',
   '{"reference": "Patient/p7"}',
   '[{"individual": {"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}}]',
   '{"start": "2024-08-17T15:55:00+00:00", "end": "2024-08-17T20:45:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "39579001", "display": "Anaphylaxis"}]}]',
   '[{"location": {"display": "Emergency department"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p7-2024-allergist', 1, '2024-09-24T10:50:00.330+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p7"}',
   '[{"individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2024-09-24T09:30:00+00:00", "end": "2024-09-24T10:30:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "39579001", "display": "Anaphylaxis"}]}]',
   NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}');

-- p8, Priya Raghunathan
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, service_provider
) VALUES
  ('enc-p8-2023-patch', 1, '2023-11-02T15:33:12.740+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p8"}',
   '[{"individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2023-11-02T14:00:00+00:00", "end": "2023-11-02T14:50:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "43116000", "display": "Eczema"}]}]',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}'),
  ('enc-p8-2025-virtual', 1, '2025-07-15T18:20:09.010+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "VR", "display": "virtual"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "448337001",
        "display": "Telemedicine consultation with patient"}]}]',
   '{"reference": "Patient/p8"}',
   '[{"individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2025-07-15T17:40:00+00:00", "end": "2025-07-15T18:05:00+00:00"}',
   '[{"text": "Migraine"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}');

-- p9 and p10: blood drawn, nothing else
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, service_provider
) VALUES
  ('enc-p9-2025-lab', 1, '2025-03-05T08:10:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "308335008",
        "display": "Patient encounter procedure"}]}]',
   '{"reference": "Patient/p9"}',
   '[{"individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2025-03-05T07:40:00+00:00", "end": "2025-03-05T07:55:00+00:00"}',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}'),
  ('enc-p10-2024-lab', 1, '2024-05-06T08:05:00.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "308335008",
        "display": "Patient encounter procedure"}]}]',
   '{"reference": "Patient/p10"}',
   '[{"individual": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}}]',
   '{"start": "2024-05-06T07:35:00+00:00", "end": "2024-05-06T07:50:00+00:00"}',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}');

-- p12, Daniel Kowalczyk
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, hospitalization,
  location, service_provider
) VALUES
  ('enc-p12-2023-ortho', 1, '2023-04-26T11:26:47.390+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p12"}',
   '[{"individual": {"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}}]',
   '{"start": "2023-04-26T10:15:00+00:00", "end": "2023-04-26T11:00:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "239873007", "display": "Osteoarthritis of knee"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p12-2023-knee', 1, '2023-05-18T13:40:58.110+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "305408004",
        "display": "Admission to surgical department"}]}]',
   '{"reference": "Patient/p12"}',
   '[{"individual": {"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}}]',
   '{"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "239873007", "display": "Osteoarthritis of knee"}]}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Ward 3 South"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p12-2024-psych', 1, '2024-04-11T16:04:22.480+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "185347001", "display": "Encounter for problem"}]}]',
   '{"reference": "Patient/p12"}',
   '[{"individual": {"reference": "Practitioner/np-delgado", "display": "Ana Delgado, NP"}}]',
   '{"start": "2024-04-11T15:00:00+00:00", "end": "2024-04-11T15:50:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "35489007", "display": "Depressive disorder"}]}]',
   NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}'),
  ('enc-p12-2025-allergy', 1, '2025-09-09T12:11:37.920+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "698314001", "display": "Consultation for treatment"}]}]',
   '{"reference": "Patient/p12"}',
   '[{"individual": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}}]',
   '{"start": "2025-09-09T09:00:00+00:00", "end": "2025-09-09T11:45:00+00:00"}',
   '[{"text": "Penicillin allergy testing"}]',
   NULL, NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}');

-- p13, Theo Okafor
INSERT INTO encounter (
  id, version_id, last_updated, meta, status, class, type, subject, participant, period, reason_code, hospitalization,
  location, service_provider
) VALUES
  ('enc-p13-2025-birth', 1, '2025-04-21T13:15:00.250+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}]',
   '{"reference": "Patient/p13"}',
   '[{"individual": {"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}}]',
   '{"start": "2025-04-19T06:42:00+00:00", "end": "2025-04-21T12:30:00+00:00"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "442311008", "display": "Liveborn born in hospital"}]}]',
   '{"dischargeDisposition": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
        "display": "Discharged to home care or self care (routine discharge)"}]}}',
   '[{"location": {"display": "Birth center"}}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}'),
  ('enc-p13-2025-wellchild', 1, '2025-06-20T10:40:33.770+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-encounter"]}',
   'finished',
   '{"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB", "display": "ambulatory"}',
   '[{"coding": [{"system": "http://snomed.info/sct", "code": "410620009", "display": "Well child visit"}]}]',
   '{"reference": "Patient/p13"}',
   '[{"individual": {"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}}]',
   '{"start": "2025-06-20T10:00:00+00:00", "end": "2025-06-20T10:25:00+00:00"}',
   NULL, NULL, NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}');


-- ==== AllergyIntolerance ====================================================
-- service.md 2.3

-- p1, Amelia Hartwell: five entries that count, and one entered in error
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, identifier, clinical_status, verification_status, type, category, criticality,
  code, patient, encounter, onset_date_time, onset_period, recorded_date, recorder, asserter, last_occurrence, note,
  reaction
) VALUES
  -- Two reactions, each with several manifestations, of different severity. Every must-support element of US Core
  -- is here.
  ('al-p1-penicillin', 1, '2023-02-14T10:05:12.350+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '[{"use": "official", "system": "http://harbor-allergy.example/fhir/allergy-id", "value": "A-100417"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "764146007", "display": "Penicillin"}],
     "text": "Penicillin"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '{"reference": "Encounter/enc-p1-2023-checkup"}',
   '1974-06-02T18:30:00+00:00',
   NULL,
   '2023-02-14T09:41:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '1998-11-20',
   '[{"authorReference": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"},
      "time": "2023-02-14T09:45:00+00:00",
      "text": "Carries an alert card. No penicillin of any kind; cefazolin was given in 2009 without trouble."}]',
   '[{"substance": {"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7984",
         "display": "penicillin V"}]},
      "manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "description": "Hives on the trunk, two hours after the second tablet", "onset": "1974-06-02",
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006", "display": "Oral route"}]}},
     {"substance": {"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "733",
         "display": "ampicillin"}]},
      "manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "39579001",
          "display": "Anaphylaxis"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "4386001", "display": "Bronchospasm"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "41291007", "display": "Angioedema"}]}],
      "description": "Collapse minutes after an injection before surgery", "onset": "1998-11-20T07:15:00+00:00",
      "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]},
      "note": [{"text": "Treated with epinephrine, one night in intensive care."}]}]'),
  ('al-p1-sulfa', 1, '2023-02-14T10:06:40.118+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "10831",
       "display": "sulfamethoxazole / trimethoprim"}],
     "text": "Co-trimoxazole"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '{"reference": "Encounter/enc-p1-2023-checkup"}',
   '2004-09',
   NULL,
   '2023-02-14',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271807003",
          "display": "Eruption of skin"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "onset": "2004-09", "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]'),
  -- No recordedDate: a search by date uses the onset.
  ('al-p1-latex', 1, '2023-02-14T10:08:02.900+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "111088007", "display": "Latex"}],
     "text": "Latex gloves"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   NULL,
   '1996-05',
   NULL, NULL,
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "418363000",
          "display": "Itching of skin"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "43116000", "display": "Eczema"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "6064005",
         "display": "Topical route"}]}}]'),
  -- An intolerance. recordedDate is a year alone.
  ('al-p1-ibuprofen', 1, '2023-03-01T13:22:33.010+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "5640", "display": "ibuprofen"}],
     "text": "Ibuprofen"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   NULL, NULL, NULL,
   '2011',
   NULL, NULL, NULL,
   '[{"text": "Stomach pain with 400 mg, twice. Takes acetaminophen instead."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "21522001",
          "display": "Abdominal pain"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "422587007", "display": "Nausea"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]'),
  -- The onset is a period.
  ('al-p1-ragweed', 1, '2025-05-20T15:30:21.440+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "256303006",
       "display": "Ragweed pollen"}],
     "text": "Ragweed"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '{"reference": "Encounter/enc-p1-2025-allergy"}',
   NULL,
   '{"start": "2019-08", "end": "2019-10"}',
   '2025-05-20T14:40:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL,
   '2024-09',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "70076002", "display": "Rhinitis"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "76067001", "display": "Sneezing"}]}],
      "severity": "mild"}]');

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, recorded_date, recorder, note, reaction
) VALUES
  -- Entered in error: version 1 said active, version 2 must not carry a clinicalStatus (invariant ait-2).
  ('al-p1-metformin', 1, '2023-08-07T16:40:05.600+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "6809", "display": "metformin"}],
     "text": "Metformin"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '2023-08-07T16:38:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "62315008",
          "display": "Diarrhea"}]}]}]'),
  ('al-p1-metformin', 2, '2023-08-09T08:12:47.255+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "entered-in-error"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "6809", "display": "metformin"}],
     "text": "Metformin"}',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '2023-08-07T16:38:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '[{"authorReference": {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"},
      "time": "2023-08-09T08:10:00+00:00",
      "text": "Meant for another patient. Mrs. Hartwell takes metformin without trouble."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "62315008",
          "display": "Diarrhea"}]}]}]');

-- p2, Luis Ortega Ruiz
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction, extra
) VALUES
  -- In Spanish: extra.language, and the text a person reads.
  ('al-p2-mariscos', 1, '2023-06-11T05:02:09.730+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "735029006", "display": "Shellfish"}],
     "text": "Mariscos"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '{"reference": "Encounter/enc-p2-2023-ed"}',
   '2012-12-24',
   '2023-06-11T03:40:00+00:00',
   '{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '2021-07',
   '[{"text": "Evita todos los mariscos. Lleva consigo un autoinyector de epinefrina."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "41291007", "display": "Angioedema"}]}],
      "description": "Ronchas e hinchazón de los labios diez minutos después de comer camarones", "onset": "2012-12-24",
      "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   '{"language": "es"}'),
  ('al-p2-dust-mite', 1, '2025-04-03T16:31:55.002+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "260147004", "display": "House dust mite"}],
     "text": "House dust mite"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '{"reference": "Encounter/enc-p2-2025-visit"}',
   '2003',
   '2025-04-03T16:15:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "195967001", "display": "Asthma"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "70076002", "display": "Rhinitis"}]}],
      "severity": "moderate"}]',
   NULL),
  -- The reaction is unknown (261665006), and so is the route (data-absent-reason).
  ('al-p2-lidocaine', 1, '2023-06-11T08:02:51.360+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'unable-to-assess',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "6387", "display": "lidocaine"}],
     "text": "Dental injection, perhaps lidocaine"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   NULL, NULL,
   '2023-06-11',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}',
   NULL, NULL,
   '[{"text": "His mother remembers a bad reaction at the dentist when he was about seven. Nothing more is known."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "261665006", "display": "Unknown"}]}],
      "exposureRoute": {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
         "valueCode": "unknown"}]}}]',
   NULL);

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction
) VALUES
  -- Two codings of the same drug. Version 2 corrects the severity after talking to the patient.
  ('al-p2-morphine', 1, '2023-06-12T06:14:30.480+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "373529000", "display": "Morphine"},
      {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7052", "display": "morphine"}],
     "text": "Morphine"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '{"reference": "Encounter/enc-p2-2023-appendix"}',
   '2023-06-12T02:20:00+00:00',
   '2023-06-12T06:00:00+00:00',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "onset": "2023-06-12T02:20:00+00:00", "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]}}]'),
  ('al-p2-morphine', 2, '2023-06-13T09:40:18.205+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "373529000", "display": "Morphine"},
      {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7052", "display": "morphine"}],
     "text": "Morphine"}',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '{"reference": "Encounter/enc-p2-2023-appendix"}',
   '2023-06-12T02:20:00+00:00',
   '2023-06-12T06:00:00+00:00',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}',
   '2023-06-12',
   '[{"text": "Side effect, no allergy. Hydromorphone was tolerated."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "onset": "2023-06-12T02:20:00+00:00", "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]}}]');

-- p3, Noah Lindqvist
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction, extra
) VALUES
  -- Three versions tell a story: suspected, confirmed by a test, outgrown.
  ('al-p3-egg', 1, '2023-03-09T10:02:11.220+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["food"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "102263004", "display": "Eggs (edible)"}],
     "text": "Hen''s egg"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2023-wellchild"}',
   '2018-03',
   '2023-03-09T09:48:00+00:00',
   '{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}',
   NULL, NULL,
   '[{"text": "Reported by his mother. Referred to the allergist."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001",
          "display": "Urticaria"}]}],
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   NULL),
  ('al-p3-egg', 2, '2024-02-27T12:01:38.905+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "102263004", "display": "Eggs (edible)"}],
     "text": "Hen''s egg"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2024-consult"}',
   '2018-03',
   '2023-03-09T09:48:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '2022-08-14',
   '[{"text": "Skin prick test positive, wheal 6 mm. Challenge planned for the summer."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   NULL),
  ('al-p3-egg', 3, '2024-06-25T13:35:50.071+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "resolved"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "102263004", "display": "Eggs (edible)"}],
     "text": "Hen''s egg"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2024-challenge"}',
   '2018-03',
   '2023-03-09T09:48:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '2022-08-14',
   '[{"text": "Ate one whole boiled egg under observation, no reaction. Outgrown."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   '{"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/allergyintolerance-resolutionAge",
       "valueAge": {"value": 7, "unit": "years", "system": "http://unitsofmeasure.org", "code": "a"}}]}');

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, identifier, clinical_status, verification_status, type, category, criticality,
  code, patient, encounter, onset_date_time, onset_period, recorded_date, recorder, asserter, last_occurrence, note,
  reaction, extra
) VALUES
  ('al-p3-peanut', 1, '2023-03-09T10:03:44.017+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '[{"use": "official", "system": "http://harbor-allergy.example/fhir/allergy-id", "value": "A-100532"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "762952008", "display": "Peanut"}], "text": "Peanut"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2023-wellchild"}',
   '2018-11-03',
   NULL,
   '2023-03-09T09:50:00+00:00',
   '{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '2018-11-03',
   '[{"text": "School has an epinephrine auto-injector 0.15 mg and a written plan."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "39579001",
          "display": "Anaphylaxis"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]}],
      "description": "Half a peanut butter cracker", "onset": "2018-11-03", "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   NULL),
  -- No reaction so far: found by testing alone.
  ('al-p3-tree-nut', 1, '2024-02-27T12:03:05.590+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "442571000124108", "display": "Tree nut"}],
     "text": "Walnut and pecan"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2024-consult"}',
   NULL, NULL,
   '2024-02-27',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL, NULL,
   '[{"text": "IgE to walnut 14 kU/L. Has never eaten it; avoid."}]',
   NULL, NULL),
  -- Outgrown: the onset is a period that has ended.
  ('al-p3-milk', 1, '2023-03-09T10:05:19.804+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "resolved"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "264295007", "display": "Cow''s milk protein"}],
     "text": "Cow''s milk"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   NULL, NULL,
   '{"start": "2017-08", "end": "2019-11"}',
   NULL,
   '{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "62315008", "display": "Diarrhea"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "43116000", "display": "Eczema"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   NULL),
  ('al-p3-cat', 1, '2024-02-27T12:04:47.313+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "260152009", "display": "Cat dander"}], "text": "Cats"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2024-consult"}',
   NULL, NULL,
   '2024-02-27T11:35:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "878820003",
          "display": "Rhinoconjunctivitis"}]}],
      "severity": "mild"},
     {"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "195967001", "display": "Asthma"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "49727002", "display": "Cough"}]}],
      "severity": "moderate", "note": [{"text": "At his grandmother''s house, every visit."}]}]',
   NULL),
  -- The onset is an age, kept in extra.
  ('al-p3-amoxicillin', 1, '2025-01-31T00:12:26.130+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "372687004", "display": "Amoxicillin"},
      {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "723", "display": "amoxicillin"}],
     "text": "Amoxicillin"}',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '{"reference": "Encounter/enc-p3-2025-ed"}',
   NULL, NULL,
   '2025-01-30T20:30:00+00:00',
   '{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}',
   NULL, NULL,
   '[{"text": "Rash on day five of treatment, together with a viral infection."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271807003",
          "display": "Eruption of skin"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   '{"onsetAge": {"value": 3, "unit": "years", "system": "http://unitsofmeasure.org", "code": "a"}}');

-- p4, Grace Okafor: asked, and no known drug allergy (NKDA)
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, recorded_date, recorder, asserter
) VALUES
  -- service.md 2.3: for NKDA the criticality is unable-to-assess.
  ('al-p4-nkda', 1, '2024-10-08T09:52:14.665+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'unable-to-assess',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "409137002", "display": "No known drug allergy"}],
     "text": "NKDA"}',
   '{"reference": "Patient/p4", "display": "Grace Okafor"}',
   '{"reference": "Encounter/enc-p4-2024-prenatal"}',
   '2024-10-08T09:20:00+00:00',
   '{"reference": "Practitioner/dr-farrow", "display": "Dr. Elaine Farrow"}',
   '{"reference": "Patient/p4", "display": "Grace Okafor"}');

-- p5, Walter Brandt
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction
) VALUES
  ('al-p5-lisinopril', 1, '2023-08-22T11:12:09.550+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'high',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "29046", "display": "lisinopril"}],
     "text": "Lisinopril"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '{"reference": "Encounter/enc-p5-2023-cardiology"}',
   '2019-04-16',
   '2023-08-22T10:35:00+00:00',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   NULL,
   '2019-04-16',
   '[{"text": "No ACE inhibitor again. Sacubitril is excluded as well."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "41291007", "display": "Angioedema"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "51599000", "display": "Edema of larynx"}]}],
      "onset": "2019-04-16", "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]'),
  -- recordedDate is a month.
  ('al-p5-contrast', 1, '2023-08-22T11:14:51.208+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "385420005", "display": "Contrast media"}],
     "text": "Iodinated contrast"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   NULL,
   '2016-02',
   '2023-08',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "267036007", "display": "Dyspnea"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]}}]'),
  ('al-p5-tape', 1, '2024-09-04T07:33:19.940+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "418920007", "display": "Adhesive agent"}],
     "text": "Adhesive tape"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '{"reference": "Encounter/enc-p5-2024-hf"}',
   NULL,
   '2024-09-04',
   NULL, NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271807003",
          "display": "Eruption of skin"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "6064005",
         "display": "Topical route"}]}}]'),
  -- Inactive: tolerated again at a lower dose.
  ('al-p5-atorvastatin', 1, '2024-09-10T14:20:42.077+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "inactive"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "83367", "display": "atorvastatin"}],
     "text": "Atorvastatin"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   NULL, NULL,
   '2021-11-30',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "68962001",
          "display": "Muscle pain"}]}],
      "severity": "mild"}]'),
  -- The substance itself is unknown: its code is data-absent-reason unknown; so is the reaction (261665006).
  ('al-p5-antibiotic', 1, '2024-09-04T07:36:58.312+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'unable-to-assess',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/data-absent-reason", "code": "unknown",
       "display": "Unknown"}],
     "text": "An antibiotic, in the 1970s"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   NULL, NULL,
   '2024-09-04T07:30:00+00:00',
   NULL,
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "261665006",
          "display": "Unknown"}]}]}]');

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, recorded_date, recorder, note, reaction
) VALUES
  -- Deleted: two versions, then the deletion. A read answers 410, the history stays.
  ('al-p5-codeine', 1, '2023-09-18T09:11:25.410+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "2670", "display": "codeine"}],
     "text": "Codeine"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '2023-09-18',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "422587007",
          "display": "Nausea"}]}]}]'),
  ('al-p5-codeine', 2, '2023-10-02T15:44:07.862+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "2670", "display": "codeine"}],
     "text": "Codeine"}',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '2023-09-18',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '[{"text": "Constipation and nausea only."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "422587007", "display": "Nausea"}]}],
      "severity": "mild"}]');

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, deleted
) VALUES
  ('al-p5-codeine', 3, '2024-01-10T10:30:00.500+00:00', TRUE);

-- p6, Mei-Ling Tan: no information, which is not the same as no allergy
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, code, patient, encounter, recorded_date,
  recorder
) VALUES
  -- service.md 2.3: NI with userSelected false. "NI" never means "no allergy".
  ('al-p6-no-information', 1, '2024-03-27T08:20:36.145+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor", "code": "NI",
       "display": "NoInformation", "userSelected": false}],
     "text": "No information about allergies: no interpreter was at hand"}',
   '{"reference": "Patient/p6", "display": "Mei-Ling Tan"}',
   '{"reference": "Encounter/enc-p6-2024-colonoscopy"}',
   '2024-03-27T08:10:00+00:00',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}');

-- p7, Samuel Whitefeather
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction, extra
) VALUES
  -- An extension, a contained Practitioner who is the recorder, and an extension of the primitive recordedDate.
  ('al-p7-bee', 1, '2024-08-17T21:02:58.390+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"],
     "source": "https://riverbend-camp.example/records",
     "security": [{"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "N",
       "display": "normal"}],
     "tag": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ActReason", "code": "HTEST",
       "display": "test health data"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "288328004", "display": "Bee venom"}],
     "text": "Bee sting"}',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '{"reference": "Encounter/enc-p7-2024-sting"}',
   '2024-08-17T15:10:00+00:00',
   '2024-08-17T16:20:00+00:00',
   '{"reference": "#camp-doctor", "display": "Dr. Maya Torvald, camp physician"}',
   '{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}',
   '2024-08-17T15:10:00+00:00',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "39579001",
          "display": "Anaphylaxis"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "267036007", "display": "Dyspnea"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "126485001", "display": "Urticaria"}]}],
      "description": "One sting on the neck; throat tightness within ten minutes", "onset": "2024-08-17T15:10:00+00:00",
      "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "34206005",
         "display": "Subcutaneous route"}]}}]',
   '{"contained": [{"resourceType": "Practitioner", "id": "camp-doctor", "active": true,
       "identifier": [{"system": "http://hl7.org/fhir/sid/us-npi", "value": "9999901165"}],
       "name": [{"family": "Torvald", "given": ["Maya"], "prefix": ["Dr."]}]}],
     "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/allergyintolerance-assertedDate",
       "valueDateTime": "2024-08-17T16:05:00+00:00"}],
     "_recordedDate": {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/tz-code",
        "valueCode": "America/Los_Angeles"}]}}'),
  -- Refuted by testing, hence inactive.
  ('al-p7-wasp', 1, '2024-09-24T10:41:15.700+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "inactive"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "refuted"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "256440004", "display": "Wasp venom"}],
     "text": "Wasp sting"}',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '{"reference": "Encounter/enc-p7-2024-allergist"}',
   NULL,
   '2024-09-24T10:20:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL,
   '[{"text": "Venom IgE and intradermal test negative. He may carry epinephrine for bees alone."}]',
   NULL, NULL),
  ('al-p7-kiwi', 1, '2024-09-24T10:43:00.026+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["food"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "260176001", "display": "Kiwi fruit"}], "text": "Kiwi"}',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '{"reference": "Encounter/enc-p7-2024-allergist"}',
   '2022',
   '2024-09',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "418363000",
          "display": "Itching of skin"}]}],
      "description": "Itching of lips and palate", "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]',
   NULL);

-- p8, Priya Raghunathan: seven entries, and the four categories among them
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, text, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, last_occurrence, note, reaction
) VALUES
  -- The narrative was written by hand; nearly everywhere else the server generates it.
  ('al-p8-nickel', 1, '2023-11-02T15:01:44.870+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"status": "additional",
     "div": "<div xmlns=\"http://www.w3.org/1999/xhtml\"><p><b>Nickel</b>: contact eczema since about 1999, under buttons, buckles and earrings.</p><p>Patch test of 2 November 2023: nickel sulfate <b>++</b> on day 4. Titanium is tolerated.</p></div>"}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "33396006", "display": "Nickel"}], "text": "Nickel"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '{"reference": "Encounter/enc-p8-2023-patch"}',
   '1999',
   '2023-11-02T14:35:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "43116000", "display": "Eczema"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "6064005",
         "display": "Topical route"}]}}]'),
  ('al-p8-perfume', 1, '2023-11-02T15:04:08.031+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "418785009", "display": "Perfume"}], "text": "Perfume"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '{"reference": "Encounter/enc-p8-2023-patch"}',
   NULL,
   '2023-11-02T14:38:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "43116000", "display": "Eczema"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "6064005",
         "display": "Topical route"}]}}]'),
  ('al-p8-grass', 1, '2023-11-02T15:05:30.449+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["environment"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "256277009",
       "display": "Grass pollen"}],
     "text": "Grass pollen"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '{"reference": "Encounter/enc-p8-2023-patch"}',
   '2001-06',
   '2023-11',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   NULL,
   '2023-06',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "878820003",
          "display": "Rhinoconjunctivitis"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "76067001", "display": "Sneezing"}]}],
      "severity": "moderate"}]'),
  ('al-p8-aspirin', 1, '2025-07-15T18:08:12.613+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'high',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "1191", "display": "aspirin"}],
     "text": "Aspirin"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '{"reference": "Encounter/enc-p8-2025-virtual"}',
   '2016-01-09',
   '2025-07-15T17:50:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "4386001",
          "display": "Bronchospasm"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "70076002", "display": "Rhinitis"}]}],
      "onset": "2016-01-09", "severity": "severe",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]'),
  ('al-p8-naproxen', 1, '2025-07-15T18:09:50.904+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'high',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7258", "display": "naproxen"}],
     "text": "Naproxen"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '{"reference": "Encounter/enc-p8-2025-virtual"}',
   NULL,
   '2025-07-15T17:52:00+00:00',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   NULL, NULL,
   '[{"text": "Never taken. Recorded because of the reaction to aspirin: avoid all NSAIDs."}]',
   NULL),
  -- Category biologic.
  ('al-p8-flu-vaccine', 1, '2024-10-21T12:00:00.250+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["biologic"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "836377006",
       "display": "Influenza virus antigen-containing vaccine product"}],
     "text": "Influenza vaccine"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   NULL,
   '2024-10-18T20:00:00+00:00',
   '2024-10-21',
   NULL, NULL, NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "386661006", "display": "Fever"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "68962001", "display": "Muscle pain"}]}],
      "onset": "2024-10-18", "severity": "mild"}]'),
  ('al-p8-lactose', 1, '2025-07-15T18:11:23.378+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["food"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "47703008", "display": "Lactose"}], "text": "Milk sugar"}',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   NULL, NULL,
   '2015',
   NULL,
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "62315008", "display": "Diarrhea"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "21522001", "display": "Abdominal pain"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]');

-- p12, Daniel Kowalczyk, and p14, the same man
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, asserter, note, reaction
) VALUES
  -- Three versions: a label from childhood, taken over as confirmed, refuted by a test.
  ('al-p12-penicillin', 1, '2023-04-26T10:48:20.006+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'unable-to-assess',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "764146007", "display": "Penicillin"}],
     "text": "Penicillin"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2023-ortho"}',
   '1972',
   '2023-04-26T10:30:00+00:00',
   '{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "261665006",
          "display": "Unknown"}]}]}]'),
  ('al-p12-penicillin', 2, '2023-05-14T17:25:36.619+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "764146007", "display": "Penicillin"}],
     "text": "Penicillin"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2023-ortho"}',
   '1972',
   '2023-04-26T10:30:00+00:00',
   '{"reference": "Practitioner/rn-brooks", "display": "Tyrone Brooks, RN"}',
   NULL,
   '[{"text": "Taken over from the paper chart before surgery."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001",
          "display": "Urticaria"}]}]}]'),
  ('al-p12-penicillin', 3, '2025-09-09T11:58:41.294+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "inactive"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "refuted"}]}',
   'allergy', '["medication"]', 'low',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "764146007", "display": "Penicillin"}],
     "text": "Penicillin"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2025-allergy"}',
   '1972',
   '2023-04-26T10:30:00+00:00',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '[{"authorReference": {"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"},
      "time": "2025-09-09T11:50:00+00:00",
      "text": "Skin tests negative, amoxicillin 500 mg tolerated. He may have penicillins."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "126485001",
          "display": "Urticaria"}]}]}]');

INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, category, criticality, code,
  patient, encounter, onset_date_time, recorded_date, recorder, note, reaction
) VALUES
  ('al-p12-vancomycin', 1, '2023-05-15T10:10:33.857+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "11124", "display": "vancomycin"}],
     "text": "Vancomycin"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2023-knee"}',
   '2023-05-15T08:05:00+00:00',
   '2023-05-15T09:30:00+00:00',
   '{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}',
   '[{"text": "Came with the rate of infusion. Tolerated over two hours."}]',
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271811009",
          "display": "Face goes red"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "418363000", "display": "Itching of skin"}]}],
      "onset": "2023-05-15T08:05:00+00:00", "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]}}]'),
  ('al-p12-oxycodone', 1, '2023-05-18T11:02:19.501+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'intolerance', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7804", "display": "oxycodone"}],
     "text": "Oxycodone"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2023-knee"}',
   NULL,
   '2023-05-17',
   '{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "422587007", "display": "Nausea"}]},
       {"coding": [{"system": "http://snomed.info/sct", "code": "422400008", "display": "Vomiting"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "26643006",
         "display": "Oral route"}]}}]'),
  -- Two categories on one entry.
  ('al-p12-chlorhexidine', 1, '2023-05-18T11:05:44.733+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', '["medication", "environment"]', 'high',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "373568007", "display": "Chlorhexidine"}],
     "text": "Chlorhexidine skin prep"}',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '{"reference": "Encounter/enc-p12-2023-knee"}',
   '2023-05-15',
   '2023-05-18T10:50:00+00:00',
   '{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}',
   NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271807003",
          "display": "Eruption of skin"}]}],
      "severity": "moderate",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "6064005",
         "display": "Topical route"}]}}]'),
  ('al-p14-ceftriaxone', 1, '2023-05-16T09:44:01.912+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "unconfirmed"}]}',
   'allergy', '["medication"]', 'low',
   '{"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "2193", "display": "ceftriaxone"}],
     "text": "Ceftriaxone"}',
   '{"reference": "Patient/p14", "display": "Dan Kowalczyk"}',
   NULL, NULL,
   '2020-02-11',
   NULL, NULL,
   '[{"manifestation": [{"coding": [{"system": "http://snomed.info/sct", "code": "271807003",
          "display": "Eruption of skin"}]}],
      "severity": "mild",
      "exposureRoute": {"coding": [{"system": "http://snomed.info/sct", "code": "47625008",
         "display": "Intravenous route"}]}}]');

-- p13, Theo Okafor: a newborn with no known allergy
INSERT INTO allergy_intolerance (
  id, version_id, last_updated, meta, clinical_status, verification_status, type, criticality, code, patient,
  encounter, recorded_date, recorder
) VALUES
  ('al-p13-nka', 1, '2025-04-21T12:05:27.186+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-allergyintolerance"]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "code": "active"}]}',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
       "code": "confirmed"}]}',
   'allergy', 'unable-to-assess',
   '{"coding": [{"system": "http://snomed.info/sct", "code": "716186003", "display": "No known allergy"}],
     "text": "No known allergies"}',
   '{"reference": "Patient/p13", "display": "Theo Okafor"}',
   '{"reference": "Encounter/enc-p13-2025-birth"}',
   '2025-04-21',
   '{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}');


-- ==== Binary ================================================================
-- The bytes of the documents below. A note is text that you can read here; a PDF or an image is one long hexadecimal
-- line.

-- p1, Amelia Hartwell
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p1-progress-2023', 1, '2023-02-14T12:40:09.320+00:00',
   'text/plain; charset=utf-8',
   CAST('NORTHGATE FAMILY MEDICINE - PROGRESS NOTE
Patient: Amelia Hartwell, 64 F        Visit: 2023-02-14

SUBJECTIVE
Yearly visit. Type 2 diabetes since 2014, hypertension. Feels well, walks the
dog twice a day. No chest pain, no visual change, no numbness of the feet.
Home glucose 110-150 mg/dL fasting.

ALLERGIES (reviewed with her today)
Penicillin - hives 1974, anaphylaxis 1998. Co-trimoxazole - rash.
Latex - itching. Ibuprofen - stomach pain (intolerance).

MEDICATION
Metformin 1000 mg twice daily. Losartan 50 mg daily. Rosuvastatin 10 mg.

OBJECTIVE
BP 138/82, pulse 74 regular, BMI 29.4. Heart and lungs normal.
Feet: skin intact, monofilament felt at 10 of 10 points, pulses present.
HbA1c 7.1 %, LDL 84 mg/dL, eGFR 78, urine albumin/creatinine 12 mg/g.

ASSESSMENT AND PLAN
1. Type 2 diabetes, at goal. No change. HbA1c again in six months.
2. Hypertension, just above goal. Less salt, home readings for two weeks.
3. Due: eye exam, pneumococcal vaccine (given today), mammogram.
F. Adeyemi, MD
' AS BLOB)),
  -- A small PNG image.
  ('bin-p1-scan-2023', 1, '2023-01-09T11:05:31.004+00:00',
   'image/png',
   X'89504e470d0a1a0a0000000d494844520000014a000000640100000000c883445a000003a94944415478daed984f4c1c551cc73f333bdd80a5b0416217a4b2fc91e8a56e83874200a769d2da4b21c4133566d35a2486288d351a939647d40a5a746ba285aa752ff560bc78694d9ae8021b884d0d73683c207659419862441a377499c28c875d9a020f9c1ebc20bfcb4b7ef9cc2fbff7def77ddfcc280e2ea35fc575a8fd8acb402d71dc85cd8334b08592d856ee511b13bbcab5ae4cee6d45f1ec2893a07fd6f88ed7fa6e9535bc18c9e40ed6fe3d5c942f41e78d2e61e005fccb49a30e8404ddbdfb059e8a82722f670507ada99004354dc14cc032c1cce4bca673c6dfb1a6acc6adb16dbf8cf715defc36d09ac95d1d7be56aceec9aaa4a3ce06ea99c812db964502b8c05f0930e4b27d1e5e80074830e2c04a8c27953cd212a4395b8f7ebf6a1e1e460c3c5aabec50fce3ebc6b3a7ffba1de1f8ad76e81867a7eeec0054fe4c8eb416af2a2c7f44bcd89cf725b2e4b7b55844623aa483154008c0bfca4365801618bc35890251ac731c995a2632f8958cb20a1d79a164fb3e7a6a356f61c1fcf97cd2b9ef1a4e9f4b0b0ae6745ef6dc113e961c6c56ecda587e24d264247b0437774923d858423c9b00c8d418c091d184401a37754f40aa357867ac304f055949da9000c82e838222891a106e7e7dab0a75efee346dab642054f5eba2d9ef74baa5a09f133aabfe06e464dc7acefe91086b481bd6481899951533d78c274c94ec1ef030bd93bf73f96b77db824ef2fdf897dd7bf190efb4a0fa6d69c822dcf7a60d439852360e15fd01f013c80f3d0a858e8cc26d1595abdbff044f752d97b4a75cffde8d2fb8def7c786ee2704479f43a5a761df923f3358f5774d7a9f9876a9ba32b1af8dc77e042dbf468086c415840124500080ce593fb512d1e259436a9532034ecb33e00cd0e11fce2e315556b2062e462a0540b008f8523cc0874bc651e5d312dedd988f56bac49b9e64cdac9c53bb1c8ec95dca123636fc41667af8c5d9e8dacf4ac916563bab3c17b56dab3be5b7e2eb5d1ba6e5ebdfa028e8e4920e64b6b6b2926473526a3860238a1601434c0135cafea94232647aa8aec3e9cca32ca9fc9dbb37e03b6987aa4e52bb559d8ed95b4ef9b6fdb685a5eb55307b85b0434898d50cb164b00593bc912f67a28f109356fa282db8bfea85ad39fdaeb3c075f4ae5b25a0396d7b50666dcef56f126b5b7c98faa19d1e5b7e1aa98fab459d487e4b7e1aa087a72182428d5ebaab0b8f82ee76e845ca049a7ae7ea4e164d24503bfd985c20ec85e20d7544db59e7ef5e992d2d6ff93bb6c4a34e1f29b5f45f94ffe3afc036307d4603da6a7600000000049454e44ae426082'),
  ('bin-p1-ed-2024', 1, '2024-01-18T19:30:44.710+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE - LAKESIDE GENERAL HOSPITAL
Arrival 2024-01-18 15:20, private car. Triage level 3.

CHIEF COMPLAINT  Fever and shortness of breath, three days.
HPI  65-year-old woman with diabetes and hypertension. Cough with rusty
sputum, rigors last night, now short of breath on the stairs. No travel.
ALLERGIES  PENICILLIN (ANAPHYLAXIS). Co-trimoxazole, latex. No ibuprofen.
EXAM  T 39.1, HR 112, BP 128/70, RR 26, SpO2 89 % on room air. Alert.
Crackles at the right base with bronchial breathing. No leg swelling.
RESULTS  WBC 17.2, creatinine 1.0, lactate 1.6, glucose 214. Influenza and
SARS-CoV-2 negative. Chest film: right lower lobe consolidation.
COURSE  Oxygen 2 L, SpO2 95 %. Blood cultures drawn, then levofloxacin 750 mg
IV because of the penicillin history. Acetaminophen, one liter of fluid.
CURB-65 = 2 (age 65, RR below 30, urea 24).
IMPRESSION  Community-acquired pneumonia with hypoxia.
DISPOSITION  Admitted to Dr. Sato, ward 4 West, stable.
R. Castellanos, MD
' AS BLOB)),
  ('bin-p1-hp-2024', 1, '2024-01-18T22:15:20.095+00:00',
   'text/plain; charset=utf-8',
   CAST('HISTORY AND PHYSICAL
Amelia Hartwell, 65 F      Admitted 2024-01-18      Attending: K. Sato, MD

REASON FOR ADMISSION
Right lower lobe pneumonia with oxygen need.

HISTORY OF PRESENT ILLNESS
Well until three days ago: fever, productive cough, pleuritic pain on the
right. Seen in the emergency department this afternoon, SpO2 89 %.

PAST HISTORY
Type 2 diabetes (2014), hypertension, cholecystectomy 2009 (cefazolin given
without reaction). Stopped smoking 1995, ten pack-years.

ALLERGIES
Penicillin: anaphylaxis 1998. Sulfamethoxazole/trimethoprim: rash.
Latex: contact itching. Ibuprofen: abdominal pain.

MEDICATION AT HOME
Metformin 1000 mg bid, losartan 50 mg, rosuvastatin 10 mg.

FAMILY AND SOCIAL
Retired librarian, lives with her husband. Father: stroke at 71.

EXAMINATION
T 38.6, HR 104, BP 124/68, RR 24, SpO2 94 % on 2 L. Tired, no confusion.
Chest: dullness and crackles, right base. Heart regular, no murmur. Abdomen
soft. No edema.

ASSESSMENT AND PLAN
1. Community-acquired pneumonia: levofloxacin 750 mg daily, oxygen, cultures
   and urinary antigens pending. No beta-lactam.
2. Diabetes: hold metformin, insulin by scale, HbA1c.
3. Latex-free care. Enoxaparin 40 mg. Full code.
' AS BLOB)),
  ('bin-p1-imaging-2024', 1, '2024-01-18T16:31:02.540+00:00',
   'text/plain; charset=utf-8',
   CAST('DIAGNOSTIC IMAGING STUDY
Exam: chest, posteroanterior and lateral            2024-01-18 16:05
Ordered by: R. Castellanos, MD         Read by: K. Mensah, MD

CLINICAL INFORMATION  Fever, hypoxia, crackles on the right. Age 65.
COMPARISON  Chest film of 2019-06-04.
FINDINGS
Airspace consolidation in the right lower lobe with air bronchograms. Small
right pleural effusion. Left lung clear. Heart size normal. No pneumothorax.
Surgical clips in the right upper abdomen.
IMPRESSION
1. Right lower lobe pneumonia with a small parapneumonic effusion.
2. Repeat in six weeks to show that it clears.
Result called to the emergency department at 16:20.
' AS BLOB)),
  ('bin-p1-lab-2024', 1, '2024-01-19T09:12:18.662+00:00',
   'text/html; charset=utf-8',
   CAST('<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Laboratory report</title></head>
<body>
<h1>Meridian Reference Laboratory</h1>
<p>Amelia Hartwell, born 1958-04-12. Collected 2024-01-19 06:10.</p>
<table>
<tr><th>Test</th><th>Result</th><th>Unit</th><th>Reference</th></tr>
<tr><td>Leukocytes</td><td><b>15.8 H</b></td><td>10*3/uL</td><td>4.0-11.0</td></tr>
<tr><td>Hemoglobin</td><td>12.6</td><td>g/dL</td><td>12.0-15.5</td></tr>
<tr><td>Creatinine</td><td>0.9</td><td>mg/dL</td><td>0.5-1.1</td></tr>
<tr><td>C-reactive protein</td><td><b>188 H</b></td><td>mg/L</td><td>&lt; 5</td></tr>
<tr><td>Hemoglobin A1c</td><td><b>7.4 H</b></td><td>%</td><td>&lt; 5.7</td></tr>
</table>
<p>Verified by M. Rosen, MD.</p>
</body>
</html>
' AS BLOB)),
  ('bin-p1-progress-2024', 1, '2024-02-06T13:03:50.271+00:00',
   'text/html; charset=utf-8',
   CAST('<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Progress note, Amelia Hartwell</title></head>
<body>
<h1>Progress note: after pneumonia</h1>
<p><b>Visit</b> 2024-02-06, Northgate Family Medicine, Folake Adeyemi, MD</p>
<h2>Subjective</h2>
<p>Two weeks home. Cough nearly gone, tires by evening, appetite is back.</p>
<h2>Allergies</h2>
<ul>
<li>Penicillin: anaphylaxis</li>
<li>Co-trimoxazole: rash</li>
<li>Latex: itching</li>
<li>Ibuprofen: stomach pain (intolerance)</li>
</ul>
<h2>Objective</h2>
<table>
<tr><th>BP</th><th>Pulse</th><th>Temp</th><th>SpO2</th></tr>
<tr><td>134/80</td><td>76</td><td>36.6</td><td>97 %</td></tr>
</table>
<p>Lungs: a few fine crackles at the right base, otherwise clear.</p>
<h2>Assessment and plan</h2>
<ol>
<li>Pneumococcal pneumonia, recovering. Chest film on 1 March.</li>
<li>Type 2 diabetes, HbA1c 7.4 % in hospital. Recheck in May.</li>
<li>Refer to allergist: is the penicillin label still true?</li>
</ol>
</body>
</html>
' AS BLOB)),
  ('bin-p1-consult-2025', 1, '2025-05-20T17:45:36.818+00:00',
   'text/plain; charset=utf-8',
   CAST('ALLERGY CONSULTATION
Amelia Hartwell, 67 F            2025-05-20            J. Whitmore, MD
Referred by: F. Adeyemi, MD      Question: can the penicillin label go?

HISTORY
1974: hives two hours after the second tablet of penicillin V. 1998: collapse
with wheeze and facial swelling minutes after IV ampicillin, epinephrine,
intensive care. No beta-lactam since, except cefazolin 2009 (tolerated).
Ragweed: sneezing from August to October since 2019.
Other: co-trimoxazole rash 2004, latex contact itching, ibuprofen stomach pain.

MEDICATION  Metformin, losartan, rosuvastatin. No antihistamine for a week.

TESTS
Skin prick and intradermal: penicilloyl-polylysine 0/0 mm, penicillin G 0/0,
ampicillin 0/5 mm with flare (positive), histamine 6 mm. Ragweed prick 7 mm.

ASSESSMENT
1. Severe immediate reaction in 1998, ampicillin intradermal still positive:
   the label is right and stays. No oral challenge.
2. Cefazolin has a different side chain and may be used.
3. Seasonal allergic rhinitis to ragweed.

PLAN
Keep the alert card; a drug passport is attached as PDF. Intranasal steroid
from the first of August. Back only if a new question comes up.
' AS BLOB)),
  ('bin-p1-passport-2025', 1, '2025-05-20T17:45:36.818+00:00',
   'application/pdf',
   X'255044462d312e330a25938c8b9e205265706f72744c61622047656e6572617465642050444620646f63756d656e7420286f70656e736f75726365290a312030206f626a0a3c3c0a2f46312032203020520a3e3e0a656e646f626a0a322030206f626a0a3c3c0a2f42617365466f6e74202f48656c766574696361202f456e636f64696e67202f57696e416e7369456e636f64696e67202f4e616d65202f4631202f53756274797065202f5479706531202f54797065202f466f6e740a3e3e0a656e646f626a0a332030206f626a0a3c3c0a2f436f6e74656e7473203720302052202f4d65646961426f78205b203020302036313220373932205d202f506172656e74203620302052202f5265736f7572636573203c3c0a2f466f6e74203120302052202f50726f63536574205b202f504446202f54657874202f496d61676542202f496d61676543202f496d61676549205d0a3e3e202f526f746174652030202f5472616e73203c3c0a0a3e3e200a20202f54797065202f506167650a3e3e0a656e646f626a0a342030206f626a0a3c3c0a2f506167654d6f6465202f5573654e6f6e65202f5061676573203620302052202f54797065202f436174616c6f670a3e3e0a656e646f626a0a352030206f626a0a3c3c0a2f417574686f722028666869726170702064656d6f29202f4372656174696f6e446174652028443a32303030303130313030303030302b30302730302729202f43726561746f722028616e6f6e796d6f757329202f4b6579776f726473202829202f4d6f64446174652028443a32303030303130313030303030302b30302730302729202f50726f647563657220285265706f72744c616220504446204c696272617279202d205c286f70656e736f757263655c2929200a20202f5375626a6563742028756e73706563696669656429202f5469746c6520284472756720616c6c657267792070617373706f727429202f54726170706564202f46616c73650a3e3e0a656e646f626a0a362030206f626a0a3c3c0a2f436f756e742031202f4b696473205b203320302052205d202f54797065202f50616765730a3e3e0a656e646f626a0a372030206f626a0a3c3c0a2f46696c746572205b202f466c6174654465636f6465205d202f4c656e677468203332350a3e3e0a73747265616d0a789c6d90514fc2301485dff915e771980dd7b121f0361d0a46e465c198f0526661d5ae5dda82e0afb75b4034314deec3b93ddfb9f71284ee91b61615709be3fa9e8044c83720712f46fe8449de39eb71ab0f7ac38b4e4e8841889b7e82bc8297e9dd165408a6b747d4d4985a69db45fe8efcea1f17091b57cb0f5b7ed4d049bfa95e5a31c129a654db4f26848fb5d21264940c83300e4874c67aee876b213dc552f986d4d8b2a2b863d232ed230aa3240893200acfa6d6982df0bcc8f1305b4ec6cee6266692175c082eb1f2a8a4757914f4c08d4b1d0d7d980fd7b0cc58d4ca70cbf7ac25afba3fa3a4cbc52c1ba35081d5bc5207faa504732c4d4db9eafa10d4b203b642ed99f1c1d7bb5aab0d6bd28c55152d4a77342e7f01e7e92ba669335fc1360d8dcb3f2b3ceedc8d245e4a6e2ba5998f79e62349dcb6e4b2ac3b3c3adf8b7b8a90656e6473747265616d0a656e646f626a0a787265660a3020380a303030303030303030302036353533352066200a30303030303030303631203030303030206e200a30303030303030303932203030303030206e200a30303030303030313939203030303030206e200a30303030303030333932203030303030206e200a30303030303030343630203030303030206e200a30303030303030373337203030303030206e200a30303030303030373936203030303030206e200a747261696c65720a3c3c0a2f4944200a5b3c62373432396265353530326666353735316633363939613761386131663630353e3c62373432396265353530326666353735316633363939613761386131663630353e5d0a25205265706f72744c61622067656e6572617465642050444620646f63756d656e74202d2d2064696765737420286f70656e736f75726365290a0a2f496e666f2035203020520a2f526f6f742034203020520a2f53697a6520380a3e3e0a7374617274787265660a313139360a2525454f460a'),
  -- The three versions of one discharge summary.
  ('bin-p1-discharge-2024-v1', 1, '2024-01-23T15:20:05.150+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY - PRELIMINARY, NOT YET SIGNED
Amelia Hartwell, 65 F
Admitted 2024-01-18    Discharged 2024-01-23    Ward 4 West, K. Sato, MD

DIAGNOSES
Community-acquired pneumonia, right lower lobe
Type 2 diabetes mellitus. Essential hypertension.

ALLERGIES
Penicillin (anaphylaxis), co-trimoxazole, latex, ibuprofen (intolerance).

HOSPITAL COURSE
Started on levofloxacin in the emergency department because of the penicillin
history. Oxygen until day 3, afebrile from day 3, eating well from day 4.
Glucose 140-220 on insulin by scale; HbA1c 7.4 %. Creatinine stable at 0.9.
Blood cultures: no growth so far. Urinary antigens pending.

CONDITION AT DISCHARGE
T 36.8, HR 82, BP 132/76, SpO2 96 % on room air. Walks the corridor alone.

MEDICATION
Levofloxacin 750 mg daily.
Metformin 1000 mg bid (resumed), losartan 50 mg, rosuvastatin 10 mg.

FOLLOW-UP
Dr. Adeyemi in two weeks. Chest film six weeks after the first.
Come back for fever, new chest pain or worse breathing.
' AS BLOB)),
  ('bin-p1-discharge-2024-v2', 1, '2024-01-24T09:41:33.009+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY
Amelia Hartwell, 65 F
Admitted 2024-01-18    Discharged 2024-01-23    Ward 4 West, K. Sato, MD

DIAGNOSES
Community-acquired pneumonia, right lower lobe
Type 2 diabetes mellitus. Essential hypertension.

ALLERGIES
Penicillin (anaphylaxis), co-trimoxazole, latex, ibuprofen (intolerance).

HOSPITAL COURSE
Started on levofloxacin in the emergency department because of the penicillin
history. Oxygen until day 3, afebrile from day 3, eating well from day 4.
Glucose 140-220 on insulin by scale; HbA1c 7.4 %. Creatinine stable at 0.9.
Blood cultures: no growth after five days. Urinary antigens pending.

CONDITION AT DISCHARGE
T 36.8, HR 82, BP 132/76, SpO2 96 % on room air. Walks the corridor alone.

MEDICATION
Levofloxacin 750 mg daily until 2024-01-28 (10 days in all).
Metformin 1000 mg bid (resumed), losartan 50 mg, rosuvastatin 10 mg.

FOLLOW-UP
Dr. Adeyemi in two weeks. Chest film six weeks after the first.
Come back for fever, new chest pain or worse breathing.
' AS BLOB)),
  ('bin-p1-discharge-2024-v3', 1, '2024-01-30T11:06:58.477+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY - AMENDED 2024-01-30
Amelia Hartwell, 65 F
Admitted 2024-01-18    Discharged 2024-01-23    Ward 4 West, K. Sato, MD

DIAGNOSES
Community-acquired pneumonia, right lower lobe, Streptococcus
pneumoniae
Type 2 diabetes mellitus. Essential hypertension.

ALLERGIES
Penicillin (anaphylaxis), co-trimoxazole, latex, ibuprofen (intolerance).

HOSPITAL COURSE
Started on levofloxacin in the emergency department because of the penicillin
history. Oxygen until day 3, afebrile from day 3, eating well from day 4.
Glucose 140-220 on insulin by scale; HbA1c 7.4 %. Creatinine stable at 0.9.
Blood cultures: no growth after five days. Urinary antigen positive for
Streptococcus pneumoniae (reported 2024-01-29, hence this amendment).

CONDITION AT DISCHARGE
T 36.8, HR 82, BP 132/76, SpO2 96 % on room air. Walks the corridor alone.

MEDICATION
Levofloxacin 750 mg daily, stopped 2024-01-25 (7 days in all; the first
version of this summary said 10 days).
Metformin 1000 mg bid (resumed), losartan 50 mg, rosuvastatin 10 mg.

FOLLOW-UP
Dr. Adeyemi in two weeks. Chest film six weeks after the first.
Come back for fever, new chest pain or worse breathing.
' AS BLOB));

-- p2, Luis Ortega Ruiz
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p2-ed-2023', 1, '2023-06-11T07:41:12.083+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE
Luis Ortega Ruiz, 33 M       2023-06-11 03:10       R. Castellanos, MD
History taken in Spanish by the physician.

CC   Abdominal pain, 14 hours.
HPI  Began around the navel after lunch, moved to the right lower quadrant
     in the evening. Vomited twice. No diarrhea, no urinary symptoms.
PMH  Mild asthma. No operations.
ALLERGIES  Shellfish: hives and lip swelling, carries epinephrine. A reaction
     to a dental injection as a child, details unknown.
MEDS Albuterol inhaler as needed.
EXAM T 38.2, HR 98, BP 126/78, RR 18, SpO2 98 %. Tender at McBurney''s point
     with guarding; Rovsing positive. Testes normal.
LABS WBC 14.9 (88 % neutrophils), CRP 62, urinalysis normal.
CT   Appendix 11 mm, thick wall, fat stranding. No perforation.
MDM  Appendicitis. Ceftriaxone and metronidazole given. Surgeon called 04:30.
     IV contrast tolerated (shellfish allergy is no contraindication).
DISPO  To surgery, Dr. Novak.
' AS BLOB)),
  ('bin-p2-surgery-2023', 1, '2023-06-11T11:20:47.366+00:00',
   'text/plain; charset=utf-8',
   CAST('SURGICAL OPERATION NOTE
Patient: Luis Ortega Ruiz, 33 M         Date: 2023-06-11
Surgeon: P. Novak, MD     Anesthesia: general, endotracheal

PREOPERATIVE DIAGNOSIS   Acute appendicitis
POSTOPERATIVE DIAGNOSIS  Acute suppurative appendicitis, not perforated
PROCEDURE                Laparoscopic appendectomy

ALLERGY CHECK  Shellfish. Possible reaction to lidocaine in childhood: no
local anesthetic was injected at the ports.

FINDINGS  Inflamed appendix with fibrin, no pus in the pelvis. Cecum healthy.

DETAILS  Supine, left arm tucked, time-out done. Open entry at the navel, two
5 mm ports. Mesoappendix divided with bipolar energy. Base closed with two
loops and cut between them. Specimen removed in a bag. Suction, hemostasis
checked, fascia closed at the navel, skin with absorbable suture.

BLOOD LOSS 10 mL    DRAINS none    SPECIMEN appendix, to pathology
COMPLICATIONS none. To recovery awake and stable.
' AS BLOB)),
  ('bin-p2-pathology-2023', 1, '2023-06-15T14:02:29.945+00:00',
   'application/pdf',
   X'255044462d312e330a25938c8b9e205265706f72744c61622047656e6572617465642050444620646f63756d656e7420286f70656e736f75726365290a312030206f626a0a3c3c0a2f46312032203020520a3e3e0a656e646f626a0a322030206f626a0a3c3c0a2f42617365466f6e74202f48656c766574696361202f456e636f64696e67202f57696e416e7369456e636f64696e67202f4e616d65202f4631202f53756274797065202f5479706531202f54797065202f466f6e740a3e3e0a656e646f626a0a332030206f626a0a3c3c0a2f436f6e74656e7473203720302052202f4d65646961426f78205b203020302036313220373932205d202f506172656e74203620302052202f5265736f7572636573203c3c0a2f466f6e74203120302052202f50726f63536574205b202f504446202f54657874202f496d61676542202f496d61676543202f496d61676549205d0a3e3e202f526f746174652030202f5472616e73203c3c0a0a3e3e200a20202f54797065202f506167650a3e3e0a656e646f626a0a342030206f626a0a3c3c0a2f506167654d6f6465202f5573654e6f6e65202f5061676573203620302052202f54797065202f436174616c6f670a3e3e0a656e646f626a0a352030206f626a0a3c3c0a2f417574686f722028666869726170702064656d6f29202f4372656174696f6e446174652028443a32303030303130313030303030302b30302730302729202f43726561746f722028616e6f6e796d6f757329202f4b6579776f726473202829202f4d6f64446174652028443a32303030303130313030303030302b30302730302729202f50726f647563657220285265706f72744c616220504446204c696272617279202d205c286f70656e736f757263655c2929200a20202f5375626a6563742028756e73706563696669656429202f5469746c652028506174686f6c6f6779207374756479204d524c2d32332d303538313729202f54726170706564202f46616c73650a3e3e0a656e646f626a0a362030206f626a0a3c3c0a2f436f756e742031202f4b696473205b203320302052205d202f54797065202f50616765730a3e3e0a656e646f626a0a372030206f626a0a3c3c0a2f46696c746572205b202f466c6174654465636f6465205d202f4c656e677468203334350a3e3e0a73747265616d0a789c6d51cb4ec33010bcf72be658501ae2f4dd1b888790fa406d7ec075b6d428b12d3fa0e5eb7102557a4096f730eb99d91d3364f1b0b68a1a782870f7ccc0721407b0513a42b1c453d1bbe0a3169fa4b30e677f12930cd3e118458dfe1bf7475de9f7339c0fe519abed72900f07d978c6a637283e50dcfe436659436e6db2d6266f4cd8b0a9fd65900e1bebe99d631be47782bdb60a6c3e9b0fb279544fb12541f2934ae459633619b03cbdb8f5778684ac492dc08d2155ca53d77bb1dab905a6239cc018ea3a4119aa0a8e6283e34bfa230e726fa54a508528f20b99e052ac350cd983b6dc4bad3acd9514912cb4392fe02d57ae0e96575014bcd5e6282b97205482222f4e5c07119d5a351f6a6d3b9dc7d7fb97f566f7ba8b838be0092e18131ab74fbaac22a48fe1fcce44565ea35703c580b4a3b8c2ea31def8ae945cc5d00e644909c292ef9b2db43d275d82e3abef42ef07f360a366656e6473747265616d0a656e646f626a0a787265660a3020380a303030303030303030302036353533352066200a30303030303030303631203030303030206e200a30303030303030303932203030303030206e200a30303030303030313939203030303030206e200a30303030303030333932203030303030206e200a30303030303030343630203030303030206e200a30303030303030373434203030303030206e200a30303030303030383033203030303030206e200a747261696c65720a3c3c0a2f4944200a5b3c64653231346331626630353565376638633930623833356563636536616663313e3c64653231346331626630353565376638633930623833356563636536616663313e5d0a25205265706f72744c61622067656e6572617465642050444620646f63756d656e74202d2d2064696765737420286f70656e736f75726365290a0a2f496e666f2035203020520a2f526f6f742034203020520a2f53697a6520380a3e3e0a7374617274787265660a313232330a2525454f460a'),
  ('bin-p2-discharge-2023', 1, '2023-06-13T13:10:55.721+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY
Luis Ortega Ruiz, 33 M     Admitted 2023-06-11     Discharged 2023-06-13

PRINCIPAL DIAGNOSIS  Acute suppurative appendicitis
PROCEDURE            Laparoscopic appendectomy 2023-06-11 (P. Novak, MD)

COURSE
No complication of the operation. In the first night repeated vomiting and
itching after IV morphine; changed to hydromorphone, well tolerated. Morphine
is now on the list as an intolerance. Eating on day 1, antibiotics stopped
after 24 hours.

ALLERGIES  Shellfish (hives, angioedema). Morphine (vomiting, itching).
Lidocaine: unconfirmed, reaction unknown.

MEDICATION  Acetaminophen 1 g every 6 hours for four days. Albuterol inhaler.

INSTRUCTIONS  No lifting above 5 kg for two weeks. Wounds dry for two days.
Instructions were given in Spanish, in writing.

FOLLOW-UP  Surgical clinic 2023-06-27. Pathology result by telephone.
' AS BLOB)),
  ('bin-p2-progress-2025', 1, '2025-04-03T17:22:40.187+00:00',
   'text/plain; charset=utf-8',
   CAST('NOTA DE EVOLUCIÓN - NORTHGATE FAMILY MEDICINE
Paciente: Luis Ortega Ruiz, 35 años        Fecha: 2025-04-03

SUBJETIVO
Tos seca y silbidos por la noche, dos o tres veces por semana, desde enero.
Peor al limpiar la casa. Usa albuterol casi a diario. No fuma.

ALERGIAS
Mariscos: ronchas e hinchazón de los labios. Lleva epinefrina.
Morfina: vómitos y picazón. Lidocaína: sin confirmar.
Nueva: ácaros del polvo (IgE específica 8.4 kU/L).

OBJETIVO
TA 122/76, FC 72, SatO2 98 %. Sibilancias leves al final de la espiración.
Espirometría: VEF1 78 %, sube 14 % tras broncodilatador.

EVALUACIÓN Y PLAN
1. Asma persistente leve, no controlada. Budesonida/formoterol 160/4.5,
   una inhalación dos veces al día y a demanda.
2. Fundas antiácaros, lavar la ropa de cama a 60 grados.
3. Renovar el autoinyector de epinefrina. Control en seis semanas.
Dra. F. Adeyemi
' AS BLOB));

-- p3, Noah Lindqvist
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p3-progress-2023', 1, '2023-03-09T12:33:15.608+00:00',
   'text/plain; charset=utf-8',
   CAST('WELL CHILD VISIT, 6 YEARS
Noah Lindqvist, M, born 2017-02-05      2023-03-09      K. Lindholm, MD

INTERVAL HISTORY (mother)
Kindergarten, reads short words, sleeps ten hours. Asthma: cough with colds,
albuterol four times since autumn. One class picture at grandmother''s house
(cats) ended with wheezing.

ALLERGIES
Peanut: anaphylaxis in 2018. Egg: hives as a toddler, never tested.
Cow''s milk: outgrown in 2019, drinks it daily.

GROWTH   20.4 kg (45th), 116 cm (52nd). BP 94/58.
EXAM     Bright, cooperative. Ears clear. Lungs clear. Mild eczema in both
         elbow folds. Teeth: first molars coming.
SCREENING  Vision 20/25 both eyes, hearing passed.
VACCINES   Up to date; influenza given today (egg is no reason not to).

ASSESSMENT AND PLAN
1. Healthy growth and development.
2. Food allergy: refer to Dr. Whitmore for peanut and egg.
3. Mild intermittent asthma: spacer technique shown again.
4. Epinephrine auto-injector 0.15 mg, two, and a plan for the school.
' AS BLOB)),
  ('bin-p3-consult-2024', 1, '2024-02-27T15:48:03.232+00:00',
   'text/html; charset=utf-8',
   CAST('<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Consult note, Noah Lindqvist</title></head>
<body>
<h1>Allergy consult</h1>
<p>Noah Lindqvist, 7 years, 2024-02-27. Referred by Karin Lindholm, MD.</p>
<h2>History</h2>
<p>Peanut: vomiting, hives and hoarse voice at 21 months. Egg: hives at
13 months, an accident with meringue in August 2022 (hives, vomited once).
Eats cake with baked egg. Never had walnut or pecan. Wheezes near cats.</p>
<h2>Skin prick test</h2>
<table>
<tr><th>Allergen</th><th>Wheal, mm</th></tr>
<tr><td>Peanut</td><td>11</td></tr>
<tr><td>Egg white</td><td>6</td></tr>
<tr><td>Walnut</td><td>9</td></tr>
<tr><td>Cashew</td><td>0</td></tr>
<tr><td>Cat</td><td>7</td></tr>
<tr><td>Cow''s milk</td><td>0</td></tr>
<tr><td>Histamine</td><td>5</td></tr>
</table>
<h2>Assessment</h2>
<p>Peanut allergy, persistent. Egg allergy, likely being outgrown. Walnut
sensitization, IgE 14 kU/L. Cat allergy with asthma.</p>
<h2>Plan</h2>
<ul>
<li>Strict avoidance of peanut, walnut and pecan.</li>
<li>Open challenge with boiled egg in June.</li>
<li>Fluticasone 44 mcg, two puffs daily; albuterol before visits to cats.</li>
</ul>
<p>Julian Whitmore, MD</p>
</body>
</html>
' AS BLOB)),
  ('bin-p3-procedure-2024', 1, '2024-06-25T14:05:21.559+00:00',
   'text/plain; charset=utf-8',
   CAST('PROCEDURE NOTE - ORAL FOOD CHALLENGE
Noah Lindqvist, 7 M       2024-06-25       Harbor Allergy and Asthma Center

INDICATION  Egg allergy, skin test 6 mm in February, eats baked egg.
CONSENT     Mother, after talking through the risks. Noah agreed.
READINESS   Well, no antihistamine for 7 days, peak flow 92 % of best.
            IV not placed; epinephrine 0.25 mg drawn up at the bedside (25 kg).

BASELINE    HR 92, BP 98/60, SpO2 99 %, skin clear.

DOSES OF BOILED EGG, EVERY 20 MINUTES
  09:00   0.5 g    no reaction
  09:20   1.5 g    no reaction
  09:40   5 g      no reaction
  10:00   15 g     says his mouth itches, gone in 5 minutes, no sign seen
  10:30   28 g     no reaction

OBSERVATION until 12:45: no hives, no vomiting, lungs clear, SpO2 99 %.

RESULT   Negative. Passed one whole egg (50 g).
PLAN     Egg two or three times a week at home. Egg allergy set to resolved.
         Peanut and tree nuts still forbidden, auto-injector stays.
J. Whitmore, MD
' AS BLOB)),
  ('bin-p3-ed-2025-v1', 1, '2025-01-30T23:14:37.890+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE (PRELIMINARY)
Noah Lindqvist, 7 M        2025-01-30 19:45        R. Castellanos, MD

CC   Wheezing since this morning, fever.
HPI  Third day of a cold. Albuterol every three hours, helping less. On day
     five of amoxicillin from an urgent care clinic for an ear infection; a
     rash came up today. No peanut or nut eaten.
PMH  Asthma, one earlier ED visit, never intubated.
ALLERGIES  Peanut, tree nuts, cats. Egg.
MEDS Fluticasone 44 mcg two puffs daily, albuterol, amoxicillin.
EXAM T 38.4, HR 138, RR 34, SpO2 91 %, weight 26 kg. Speaks in phrases.
     Expiratory wheeze everywhere, subcostal retractions. Left eardrum dull.
     Fine pink maculopapular rash on trunk, not raised, no hives.
COURSE  Albuterol 5 mg and ipratropium three times, dexamethasone 16 mg by
     mouth. At 22:00 RR 24, SpO2 96 %, plays with his tablet.
     Respiratory viral panel pending.
IMPRESSION  1. Asthma exacerbation, moderate, viral.
     2. Rash.
DISPO  Home at 23:10 with his mother. Second dose of dexamethasone tomorrow,
     albuterol every four hours for two days, pediatrician in two days.
' AS BLOB)),
  ('bin-p3-ed-2025-v2', 1, '2025-01-31T00:25:14.116+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE
Noah Lindqvist, 7 M        2025-01-30 19:45        R. Castellanos, MD

CC   Wheezing since this morning, fever.
HPI  Third day of a cold. Albuterol every three hours, helping less. On day
     five of amoxicillin from an urgent care clinic for an ear infection; a
     rash came up today. No peanut or nut eaten.
PMH  Asthma, one earlier ED visit, never intubated.
ALLERGIES  Peanut, tree nuts, cats. Egg.
MEDS Fluticasone 44 mcg two puffs daily, albuterol, amoxicillin.
EXAM T 38.4, HR 138, RR 34, SpO2 91 %, weight 26 kg. Speaks in phrases.
     Expiratory wheeze everywhere, subcostal retractions. Left eardrum dull.
     Fine pink maculopapular rash on trunk, not raised, no hives.
COURSE  Albuterol 5 mg and ipratropium three times, dexamethasone 16 mg by
     mouth. At 22:00 RR 24, SpO2 96 %, plays with his tablet.
     Respiratory viral panel: rhinovirus.
IMPRESSION  1. Asthma exacerbation, moderate, viral.
     2. Rash on amoxicillin, probably viral. Amoxicillin stopped.
DISPO  Home at 23:10 with his mother. Second dose of dexamethasone tomorrow,
     albuterol every four hours for two days, pediatrician in two days.
' AS BLOB)),
  ('bin-p3-ed-2025-v3', 1, '2025-02-03T08:55:49.403+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE (AMENDED 2025-02-03)
Noah Lindqvist, 7 M        2025-01-30 19:45        R. Castellanos, MD

CC   Wheezing since this morning, fever.
HPI  Third day of a cold. Albuterol every three hours, helping less. On day
     five of amoxicillin from an urgent care clinic for an ear infection; a
     rash came up today. No peanut or nut eaten.
PMH  Asthma, one earlier ED visit, never intubated.
ALLERGIES  Peanut, tree nuts, cats. Amoxicillin: possible, unconfirmed.
     Correction: egg was listed here by mistake, it resolved in June 2024.
MEDS Fluticasone 44 mcg two puffs daily, albuterol, amoxicillin.
EXAM T 38.4, HR 138, RR 34, SpO2 91 %, weight 26 kg. Speaks in phrases.
     Expiratory wheeze everywhere, subcostal retractions. Left eardrum dull.
     Fine pink maculopapular rash on trunk, not raised, no hives.
COURSE  Albuterol 5 mg and ipratropium three times, dexamethasone 16 mg by
     mouth. At 22:00 RR 24, SpO2 96 %, plays with his tablet.
     Respiratory viral panel: rhinovirus.
IMPRESSION  1. Asthma exacerbation, moderate, viral.
     2. Rash on amoxicillin, probably viral. Amoxicillin stopped; entered as
     an unconfirmed allergy, to be tested by Dr. Whitmore.
DISPO  Home at 23:10 with his mother. Second dose of dexamethasone tomorrow,
     albuterol every four hours for two days, pediatrician in two days.
' AS BLOB));

-- p4, Grace Okafor
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p4-hp-2025', 1, '2025-04-18T23:02:08.275+00:00',
   'text/plain; charset=utf-8',
   CAST('HISTORY AND PHYSICAL - LABOR ADMISSION
Grace Okafor, 30 F, G1 P0, 39w2d         2025-04-18 22:10      E. Farrow, MD

HPI  Contractions every 4 minutes since 17:00, membranes intact, baby active.
PREGNANCY  Dated by ultrasound at 9 weeks. Anatomy scan normal. Glucose
     challenge 118. Blood group O positive, antibodies negative, rubella
     immune, hepatitis B and HIV negative. Group B streptococcus NEGATIVE.
PMH  Iron deficiency, treated. No operations.
ALLERGIES  No known drug allergies (asked again tonight).
MEDS Prenatal vitamin, ferrous sulfate 325 mg.
SOCIAL  Teacher, married, does not smoke or drink.
EXAM BP 118/72, HR 88, T 36.9. Fundus at term, cephalic, about 3.4 kg.
     Cervix 5 cm, 90 %, station -1. Fetal heart 140, moderate variability,
     accelerations, category I.
LABS Hemoglobin 11.4, platelets 212.

ASSESSMENT  Term pregnancy in active labor, mother and baby well.
PLAN Admit to birth center. Intermittent monitoring. Wants nitrous oxide
     first, epidural if needed. Skin to skin and early breastfeeding.
' AS BLOB)),
  ('bin-p4-discharge-2025', 1, '2025-04-21T12:20:51.640+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY - POSTPARTUM
Grace Okafor, 30 F      Admitted 2025-04-18      Discharged 2025-04-21

DELIVERY  Spontaneous vaginal birth 2025-04-19 at 06:42, boy, 3350 g, Apgar 8
and 9. Second-degree tear repaired under local anesthesia. Blood loss 300 mL.

COURSE  Epidural at 7 cm, worked well. Afebrile. Up and about at 10 hours.
Breastfeeding with a good latch since day 2. Mood steady, Edinburgh score 4.

ALLERGIES  No known drug allergies.

EXAM AT DISCHARGE  BP 112/70, T 36.7. Fundus firm below the navel. Repair
clean. Calves soft. Hemoglobin 10.6.

MEDICATION  Ibuprofen 600 mg every 6 hours as needed, ferrous sulfate 325 mg
every other day, prenatal vitamin, docusate.

FOLLOW-UP  Dr. Farrow in three weeks and at six weeks. Contraception: will
decide then. Call for heavy bleeding, fever, headache, or low mood.
' AS BLOB));

-- p5, Walter Brandt
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p5-consult-2023', 1, '2023-08-22T12:31:17.059+00:00',
   'text/plain; charset=utf-8',
   CAST('CARDIOLOGY CONSULT NOTE
Walter Brandt, 81 M          2023-08-22          K. Sato, MD

REASON  Breathless on one flight of stairs, ankle swelling for two months.

HISTORY  Myocardial infarction 2011 (stent to LAD), atrial fibrillation since
2018, hypertension, chronic kidney disease stage 3. Sleeps on two pillows.
Gained 4 kg. No chest pain.

ALLERGIES  Lisinopril: tongue and throat swelling 2019, intubation was near.
Iodinated contrast: hives and wheeze 2016. Atorvastatin 80 mg: muscle pain.

MEDICATION  Apixaban 5 mg bid, metoprolol succinate 50 mg, rosuvastatin 5 mg,
furosemide 20 mg.

EXAM  BP 142/84, HR 88 irregular, SpO2 95 %, 84.2 kg. JVP 10 cm, third heart
sound, crackles at both bases, pitting edema to mid-shin.

TESTS  ECG: atrial fibrillation 86, old anterior Q waves. NT-proBNP 4120.
Creatinine 1.6, potassium 4.4. Echo today: LVEF 35 % (see its report).

ASSESSMENT  Heart failure with reduced ejection fraction, NYHA II-III.

PLAN
1. Furosemide 40 mg daily, weigh each morning.
2. No ACE inhibitor, no sacubitril: angioedema. Hydralazine/isosorbide instead.
3. Add dapagliflozin 10 mg; spironolactone when potassium allows.
4. No contrast CT without premedication.  Clinic in two weeks.
' AS BLOB)),
  ('bin-p5-imaging-2023', 1, '2023-08-22T09:58:44.381+00:00',
   'text/plain; charset=utf-8',
   CAST('TRANSTHORACIC ECHOCARDIOGRAM
Walter Brandt, 81 M      2023-08-22 09:20      Rhythm: atrial fibrillation

MEASUREMENTS   LVIDd 61 mm, LVIDs 51 mm, septum 10 mm, LA volume 48 mL/m2,
               LVEF 35 % (biplane), TAPSE 16 mm, RVSP 44 mmHg
LEFT VENTRICLE Dilated. Akinesis of apex and mid-anterior wall. No thrombus
               (ultrasound enhancing agent not used).
VALVES         Moderate functional mitral regurgitation. Aortic sclerosis
               without stenosis. Mild tricuspid regurgitation.
OTHER          Right ventricle mildly reduced. No pericardial effusion.
CONCLUSION     Ischemic cardiomyopathy, LVEF 35 %, moderate mitral
               regurgitation. In 2019 LVEF was 45 %.
Read by K. Sato, MD
' AS BLOB)),
  ('bin-p5-hp-2024', 1, '2024-09-03T21:14:32.702+00:00',
   'text/plain; charset=utf-8',
   CAST('HISTORY AND PHYSICAL
Walter Brandt, 82 M        Admitted 2024-09-03        K. Sato, MD

CC   "I cannot lie down any more."
HPI  Known ischemic cardiomyopathy, LVEF 35 %. After a family feast with salted
     fish: 6 kg in eight days, breathless at rest since last night.
PMH  MI 2011, atrial fibrillation, CKD 3b, hypertension, gout.
ALLERGIES  Lisinopril (ANGIOEDEMA). Iodinated contrast. An antibiotic in the
     1970s: he does not know which, nor what happened.
MEDS Apixaban 2.5 mg bid, metoprolol 100 mg, hydralazine 25 mg tid, isosorbide
     dinitrate 20 mg tid, dapagliflozin 10 mg, furosemide 40 mg.
EXAM BP 156/92, HR 112 irregular, RR 28, SpO2 88 %, 91.0 kg. JVP to the ear.
     Crackles to mid-zones. Edema to the thighs. Extremities warm.
DATA NT-proBNP 15,300. Creatinine 2.1 (usual 1.7). Troponin flat. Chest film:
     pulmonary edema, bilateral effusions.
A/P  1. Acute decompensated heart failure: furosemide 80 mg IV bid, aim for
        minus 2 kg a day, oxygen, low-salt diet.
     2. Atrial fibrillation, fast: treat the congestion first.
     3. Kidney injury, cardiorenal: follow daily.
     4. Goals of care: wants treatment, no intubation. DNR order confirmed.
' AS BLOB)),
  ('bin-p5-progress-2024', 1, '2024-09-06T08:47:26.924+00:00',
   'text/plain; charset=utf-8',
   CAST('PROGRESS NOTE, HOSPITAL DAY 4
Walter Brandt, 82 M         2024-09-06 08:30

S  Slept flat with two pillows. Itchy red square under the ECG tape, nurse
   changed to silicone electrodes.
O  BP 122/70, HR 84, SpO2 94 % on 1 L, 86.1 kg (minus 4.9 since admission).
   JVP 9 cm, crackles at bases only, edema to the knees. Urine 2.8 L/day.
   Na 134, K 3.6, creatinine 1.9.
A  Heart failure, improving. Adhesive tape: contact reaction, added to the
   allergy list on 4 September. Kidney function recovering.
P  Furosemide IV one more day, then torsemide 40 mg. Potassium 40 mEq.
   Try atorvastatin 10 mg again? Muscle pain at 80 mg in 2021: yes, low dose.
   Physical therapy. Plan for home on Wednesday.
' AS BLOB)),
  ('bin-p5-lab-2024', 1, '2024-09-10T08:19:55.048+00:00',
   'text/plain; charset=utf-8',
   CAST('LABORATORY REPORT                       Meridian Reference Laboratory
Walter Brandt, born 1941-11-02          MRL-24-09120
Collected 2024-09-10 05:50              Reported 2024-09-10 08:15

Sodium            137     mmol/L        135 - 145
Potassium         4.2     mmol/L        3.5 - 5.1
Creatinine        1.7  H  mg/dL         0.7 - 1.3
eGFR              39   L  mL/min        above 60
NT-proBNP         3890 H  pg/mL         below 450
Hemoglobin        12.9 L  g/dL          13.5 - 17.5

Verified by M. Rosen, MD
' AS BLOB)),
  ('bin-p5-discharge-2024', 1, '2024-09-11T15:40:13.299+00:00',
   'text/plain; charset=utf-8',
   CAST('DISCHARGE SUMMARY
Walter Brandt, 82 M      Admitted 2024-09-03      Discharged 2024-09-11

DIAGNOSES  Acute on chronic heart failure, LVEF 30 %. Permanent atrial
fibrillation. Chronic kidney disease 3b. Ischemic cardiomyopathy.

COURSE  Diuresis of 8.4 kg; dry weight now 82.6 kg. Rate settled without a new
drug. Creatinine 2.1 on admission, 1.7 at discharge. Atorvastatin 10 mg taken
for four days without muscle pain: the old intolerance is set to inactive.

ALLERGIES  Lisinopril (angioedema), iodinated contrast (hives, dyspnea),
adhesive tape (rash), an unknown antibiotic in the 1970s.

MEDICATION
  torsemide 40 mg daily (new)          apixaban 2.5 mg twice daily
  metoprolol succinate 100 mg          hydralazine 25 mg three times daily
  isosorbide dinitrate 20 mg tid       dapagliflozin 10 mg
  atorvastatin 10 mg (new)             STOP furosemide

FOLLOW-UP  Heart failure clinic 2024-09-18. Palliative care: A. Delgado, NP,
will visit at home. Weigh daily, call if plus 1.5 kg in two days.
CODE STATUS  DNR/DNI, directive on file.
' AS BLOB)),
  ('bin-p5-directive-2024', 1, '2024-09-05T16:12:08.631+00:00',
   'application/pdf',
   X'255044462d312e330a25938c8b9e205265706f72744c61622047656e6572617465642050444620646f63756d656e7420286f70656e736f75726365290a312030206f626a0a3c3c0a2f46312032203020520a3e3e0a656e646f626a0a322030206f626a0a3c3c0a2f42617365466f6e74202f48656c766574696361202f456e636f64696e67202f57696e416e7369456e636f64696e67202f4e616d65202f4631202f53756274797065202f5479706531202f54797065202f466f6e740a3e3e0a656e646f626a0a332030206f626a0a3c3c0a2f436f6e74656e7473203720302052202f4d65646961426f78205b203020302036313220373932205d202f506172656e74203620302052202f5265736f7572636573203c3c0a2f466f6e74203120302052202f50726f63536574205b202f504446202f54657874202f496d61676542202f496d61676543202f496d61676549205d0a3e3e202f526f746174652030202f5472616e73203c3c0a0a3e3e200a20202f54797065202f506167650a3e3e0a656e646f626a0a342030206f626a0a3c3c0a2f506167654d6f6465202f5573654e6f6e65202f5061676573203620302052202f54797065202f436174616c6f670a3e3e0a656e646f626a0a352030206f626a0a3c3c0a2f417574686f722028666869726170702064656d6f29202f4372656174696f6e446174652028443a32303030303130313030303030302b30302730302729202f43726561746f722028616e6f6e796d6f757329202f4b6579776f726473202829202f4d6f64446174652028443a32303030303130313030303030302b30302730302729202f50726f647563657220285265706f72744c616220504446204c696272617279202d205c286f70656e736f757263655c2929200a20202f5375626a6563742028756e73706563696669656429202f5469746c652028416476616e6365206865616c74686361726520646972656374697665205c287363616e6e65645c2929202f54726170706564202f46616c73650a3e3e0a656e646f626a0a362030206f626a0a3c3c0a2f436f756e742031202f4b696473205b203320302052205d202f54797065202f50616765730a3e3e0a656e646f626a0a372030206f626a0a3c3c0a2f46696c746572205b202f466c6174654465636f6465205d202f4c656e677468203332340a3e3e0a73747265616d0a789c6d90c14fc23018c5effc15ef0866abeb98287812a3098972d0255cb894f51bab6c2d693b08ffbddd14f0609a7c87d7f7fd5efb389270783f8b0698e7b87de5e029f2123c6319f237bce483b39ef5fa843d5c75fe8b9824b81fdf216f307c9207a10b4245a2f655212c412a4b855707c27ae80aa135c9f56884fc0bf9cd3f209e74a03e32e923d32e908fbb395c4458053059ccadd0d247d818abc1a7198f398f933408a4f416a68433ad966894961124154ad2ec9c3ae40c4b83f03ca9ccbead1ba3853dc1926b5da1bcf0ca6886b43729eddbcd8f72591f333c9ba634d6a3300d3994ca3aff88cab87d58af61747d822abbdbde550a553b081f1c0d5d3919c3fb094755528445ede8f22bb727b10b5863d1108e15692cd07567fc75fb536d43974893348b93699cdc31ac94d7e4dc0c390b2c63762ec2c792fd691b836f9bf79188656e6473747265616d0a656e646f626a0a787265660a3020380a303030303030303030302036353533352066200a30303030303030303631203030303030206e200a30303030303030303932203030303030206e200a30303030303030313939203030303030206e200a30303030303030333932203030303030206e200a30303030303030343630203030303030206e200a30303030303030373536203030303030206e200a30303030303030383135203030303030206e200a747261696c65720a3c3c0a2f4944200a5b3c34303039353937306264326536373735326238363934613332363939393531333e3c34303039353937306264326536373735326238363934613332363939393531333e5d0a25205265706f72744c61622067656e6572617465642050444620646f63756d656e74202d2d2064696765737420286f70656e736f75726365290a0a2f496e666f2035203020520a2f526f6f742034203020520a2f53697a6520380a3e3e0a7374617274787265660a313231340a2525454f460a'),
  ('bin-p5-progress-2025', 1, '2025-02-12T14:55:40.500+00:00',
   'text/plain; charset=utf-8',
   CAST('PALLIATIVE CARE HOME VISIT
Walter Brandt, 83 M       2025-02-12       A. Delgado, NP
Present: the patient, his wife Ilse.

SUBJECTIVE  In bed or chair all day. Breathless when speaking at length, worst
at night. Eats little. Not afraid; wants to stay at home. No pain.
ALLERGIES  Lisinopril, contrast, tape (use paper tape), unknown antibiotic.
OBJECTIVE  BP 94/58, HR 92, SpO2 89 %. Thin. Crackles half up. Edema 2+.
ASSESSMENT  End-stage heart failure, NYHA IV. Prognosis weeks to few months.
PLAN
- Hydromorphone 1 mg by mouth every 4 hours as needed for breathlessness.
- Torsemide may be taken a second time when the night is bad.
- Stop atorvastatin and dapagliflozin. Keep apixaban for now.
- Hospice referral made today, nurse comes on Friday.
- Ilse knows the 24-hour number. Directive of 2024-09-05 confirmed.
' AS BLOB)),
  -- Two versions of a document that was deleted later.
  ('bin-p5-misfiled', 1, '2024-05-14T10:10:10.101+00:00',
   'text/plain; charset=utf-8',
   CAST('PROGRESS NOTE
Follow-up for gout of the left great toe. Colchicine 0.6 mg twice daily for
three days. Recheck uric acid in four weeks.
' AS BLOB)),
  ('bin-p5-misfiled-v2', 1, '2024-05-15T08:21:02.034+00:00',
   'text/plain; charset=utf-8',
   CAST('PROGRESS NOTE - CHECK PATIENT
Follow-up for gout of the left great toe. Colchicine 0.6 mg twice daily for
three days. Recheck uric acid in four weeks.
Note added: this may belong to another Mr. Brandt.
' AS BLOB));

-- p6, Mei-Ling Tan
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p6-procedure-2024', 1, '2024-03-27T12:15:28.413+00:00',
   'text/plain; charset=utf-8',
   CAST('PROCEDURE NOTE - COLONOSCOPY
Mei-Ling Tan, 51 F        2024-03-27        P. Novak, MD

INDICATION   First screening colonoscopy, average risk.
INTERPRETER  None in the morning (Mandarin). Consent by telephone interpreter
             at 09:10; allergy history could not be completed.
SEDATION     Propofol by anesthesia, uneventful. No antibiotic given.
PREPARATION  Good (Boston score 8). Cecum reached in 6 minutes; withdrawal
             11 minutes.
FINDINGS     8 mm sessile polyp in the ascending colon, cold snare, complete.
             Two 3 mm polyps in the sigmoid, removed. Small hemorrhoids.
COMPLICATIONS none. Bleeding none.
IMPRESSION   Three polyps removed.
PLAN         Wait for pathology. Written advice in Chinese. Ask about
             allergies at the next visit with an interpreter.
' AS BLOB)),
  ('bin-p6-pathology-2024', 1, '2024-04-02T16:33:07.836+00:00',
   'text/plain; charset=utf-8',
   CAST('PATHOLOGY STUDY
Meridian Reference Laboratory         Accession MRL-24-03391
Mei-Ling Tan, 51 F                    Received 2024-03-28

SPECIMENS  A. Ascending colon polyp   B. Sigmoid colon polyps, two
GROSS      A: one piece, 8 x 6 x 3 mm, inked. B: two pieces, 3 mm each.
DIAGNOSIS
A. Tubular adenoma, no high-grade dysplasia. Margin free.
B. Hyperplastic polyps.
COMMENT    Surveillance as for one adenoma below 10 mm.
M. Rosen, MD, 2024-04-02
' AS BLOB)),
  -- A small PNG image.
  ('bin-p6-scan-2024', 1, '2024-03-27T09:31:41.292+00:00',
   'image/png',
   X'89504e470d0a1a0a0000000d494844520000014a0000005601000000008131e2fc000003434944415478daed974f681c551cc73f33b36c3774b3594229630874d290f664583cc4ecc51d2c825e722c65fdd3f88754a4da163cf452f605024da0212b44891a9b15a4de3c46055337894802ca2e1411d6e28ebb6bb3d4a2092cc9ee90d9e76153c1f64ddd1e7aa9f99ddecc7c98f7fbcdfbcef7f79e2669339675da0e7d596b33d08fc8f6a2c9c324b08fb2d631fe5a479f9832b4cea30097fbfbb4f1d481beabf7a25a7173e9784f6ee7ecc08faffcdcf90330f0f6377f750e2d9dfc72f15fa05cd1c15adac6c3b46b080093ed7c54e495b99e5a1dc4606d397c6bb435d160cc26d6bc783fea5aa7df440a2be39a290154a956017df65e34c0ceee17c659f3f44b17bce89f006fbd77e4e6d3b23453bbbf2cabbd4f2557f6e5a28367ef8d736fc01650f5434bc6dd712c0ae107bdb59a6eccce3c51ee48bf1ff94476d9535df1c254bfad400304e70e2efe923cd31b1d5af96cfcf0e893f3c96b4b9b2ffb96a57f2ae0cedead71a1d9ea045c403b2774cbc2018e52bc4448a8d862f94a68fd8a598e24fe30ba5391d8eb11736bfa94c288b214f786cfa4a4943221371252ca860a0ddcd5586119900e9f3bc0ed5ec5fc8fbd5e2b105f497b15e2bee8af94685810c57327e76ab73c57f8a177e8468fcfe26110cb8663c683a46d11e859441704dddf2d3714f445eb8603adc7416e38b5ba3f7a08297001a8d5262951f3cba0f8d382736637f682743676431b0736b5dd90bac565f73debe150d96a16489baa674b1b68a8f4a5f3dd3fbf1960a001b8630a7de9f48f7cb8de3955984eb39e2ea41b13b9810a60a83c4b2b243feef9a8f8ad71be377a6cece0f787df195bc4cca8cb6a0618c13909e034813a98a36af486c0b8340cbae50d1b022290572a6bf5b879223c7c6122de8c24b62642278e3df56aae5e9e0ff97856a275959252e6a49445a508755a5605e00ae02bc0512ec1e3abd73cac519136c04cdc9571a62d9f6e18038b8006c007c98bcda498133e9ed5f55c25038700c886eb8459f54960fbfac8d882e05d00aacdd190fb6c35a34607a1ae099e0720efedd483d7f37eed18227b0b0a938dafa971d9a771de1e12dd2f0ae601285d45bf261c1f7b9372414a596e26fe63079fd5c1cb00bd5ab68d2530b2ff777b7b14e86f6d9ecc74b4477236fc1bf4b2f23c4b1945d60000000049454e44ae426082');

-- p7, Samuel Whitefeather
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p7-ed-2024', 1, '2024-08-17T21:05:14.757+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE
Samuel Whitefeather, 23 M       2024-08-17 15:55      R. Castellanos, MD

CC   Bee sting, trouble breathing.
HPI  Summer camp counselor. Stung once on the neck at 15:10. Within ten minutes
     hives, tight throat, dizzy. Camp physician gave epinephrine 0.3 mg at
     15:22; ambulance gave a second dose at 15:40.
PMH  None. No medication. Earlier stings: a large swelling at age 12. Thinks
     that one of them was a wasp.
ALLERGIES  None recorded until today.
EXAM T 36.9, HR 122, BP 92/54, RR 24, SpO2 94 %. Hives on chest and arms, lip
     swelling, hoarse, no stridor, scattered wheeze.
COURSE  Third epinephrine 0.5 mg IM at 16:00, two liters saline, albuterol,
     famotidine, methylprednisolone 125 mg. 16:40 BP 118/70, voice normal.
     Tryptase at 16:15: 24 ng/mL. Watched until 20:45, no second phase.
IMPRESSION  Anaphylaxis, severe, to bee sting.
DISPO  Home with a friend. Two epinephrine 0.3 mg auto-injectors, taught by
     T. Brooks, RN. Allergist within six weeks.
' AS BLOB)),
  ('bin-p7-consult-2024', 1, '2024-09-24T12:25:03.916+00:00',
   'text/plain; charset=utf-8',
   CAST('ALLERGY CONSULT NOTE
Samuel Whitefeather, 23 M      2024-09-24       J. Whitmore, MD

HISTORY  Anaphylaxis on 2024-08-17 after one sting; he saved the insect, a
honeybee. Itching lips with kiwi for two years, nothing with other fruit.
Works outdoors. No beta-blocker.

TESTS  Intradermal: honeybee positive at 0.01 mcg/mL. Yellow jacket, hornet
and Polistes wasp negative up to 1 mcg/mL. Serum IgE: bee 22 kU/L, wasp below
0.1. Baseline tryptase 4.1.

ASSESSMENT
1. Bee venom anaphylaxis, severe.
2. Wasp allergy, carried on the camp list: refuted.
3. Kiwi: oral allergy syndrome, mild.

PLAN  Venom immunotherapy, bee, weekly from October, five years. Carry two
auto-injectors. Avoid raw kiwi if it bothers him.
' AS BLOB)),
  ('bin-p7-wrong-patient', 1, '2024-10-01T09:14:20.068+00:00',
   'text/plain; charset=utf-8',
   CAST('PROGRESS NOTE
Suture removal, left forearm, day 10. Wound closed, no redness. Keep covered
in the sun for three months. No follow-up needed.
' AS BLOB));

-- p8, Priya Raghunathan
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p8-consult-2023', 1, '2023-11-02T16:20:33.384+00:00',
   'text/html; charset=utf-8',
   CAST('<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Patch test, Priya Raghunathan</title></head>
<body>
<h1>Consult note: patch test</h1>
<p>Priya Raghunathan, 38 years, 2023-11-02. Julian Whitmore, MD.</p>
<h2>History</h2>
<p>Hand and neck eczema for years, worse with necklaces and a new perfume.
Hay fever in June. Atopic as a child. Uses hydrocortisone 1 %.</p>
<h2>Results on day 4</h2>
<table>
<tr><th>Substance</th><th>Reading</th></tr>
<tr><td>Nickel sulfate 5 %</td><td>++</td></tr>
<tr><td>Fragrance mix I</td><td>+</td></tr>
<tr><td>Balsam of Peru</td><td>+</td></tr>
<tr><td>Cobalt chloride</td><td>negative</td></tr>
<tr><td>Formaldehyde</td><td>negative</td></tr>
</table>
<p>Skin prick: grass mix 8 mm, birch 0, house dust mite 0.</p>
<h2>Assessment and plan</h2>
<ol>
<li>Allergic contact dermatitis to nickel and fragrance. Lists handed out.</li>
<li>Grass pollen rhinoconjunctivitis. Cetirizine from May.</li>
<li>Mometasone 0.1 % for flares, two weeks at most.</li>
</ol>
</body>
</html>
' AS BLOB)),
  ('bin-p8-progress-2025', 1, '2025-07-15T18:31:46.543+00:00',
   'text/plain; charset=utf-8',
   CAST('PROGRESS NOTE - VIDEO VISIT
Priya Raghunathan, 40 F       2025-07-15       F. Adeyemi, MD

SUBJECTIVE  Migraine without aura, four days a month, throbbing on the left,
nausea. Acetaminophen no longer enough. A friend gave her naproxen; she asked
first, because aspirin in 2016 brought on wheezing and a blocked nose.

ALLERGIES  Aspirin: bronchospasm (new entry). Naproxen: never taken, avoid.
Nickel and perfume: contact eczema. Grass pollen. Influenza vaccine: a day of
fever in 2024. Lactose: intolerance.

OBJECTIVE  By video: comfortable, speech clear, face symmetric, neck moves
freely. Home BP 116/74.

ASSESSMENT AND PLAN
1. Migraine: sumatriptan 50 mg at onset, may repeat once. Diary. Riboflavin.
2. NSAID hypersensitivity, likely aspirin-exacerbated respiratory disease:
   no NSAID; refer to Dr. Whitmore. Lactose-free tablets where possible.
3. Influenza vaccine next season: fever alone is no reason to refuse.
' AS BLOB));

-- p12, Daniel Kowalczyk
INSERT INTO binary (
  id, version_id, last_updated, content_type, security_context, data
) VALUES
  ('bin-p12-consult-2023', 1, '2023-04-26T13:15:38.627+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('ORTHOPEDIC CONSULT NOTE
Daniel Kowalczyk, 57 M        2023-04-26        S. Haverford, MD

REASON   Right knee pain, eight years, worse since winter.
HISTORY  Shipyard welder. Pain on stairs and at night, walks 300 m. Meniscus
         removed 1994. Injections and physical therapy no longer help.
PMH      Obesity, sleep apnea with CPAP, depression in the past.
ALLERGIES  "Penicillin as a child", no idea what happened.
MEDS     Acetaminophen, meloxicam 15 mg, amlodipine 5 mg.
EXAM     BMI 34. Varus 8 degrees, effusion, range 5-105 degrees, ligaments
         stable, pulses good, skin healthy.
IMAGING  Weight-bearing films today: medial joint space gone, osteophytes.
ASSESSMENT  End-stage osteoarthritis, right knee.
PLAN     Total knee arthroplasty in May. Weight, CPAP on the ward, dental
         check. Vancomycin for prophylaxis unless penicillin is cleared.
' AS BLOB)),
  ('bin-p12-imaging-2023', 1, '2023-04-26T10:02:53.480+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('DIAGNOSTIC IMAGING STUDY
Right knee, weight-bearing, three views       2023-04-26 09:40
Daniel Kowalczyk, 57 M                        Read by K. Mensah, MD

FINDINGS   Complete loss of the medial compartment, subchondral sclerosis,
large marginal osteophytes. Patellofemoral narrowing. Varus alignment 8
degrees. Loose body in the suprapatellar pouch, 9 mm. No fracture.
IMPRESSION Severe tricompartmental osteoarthritis, medial worst
(Kellgren-Lawrence 4).
' AS BLOB)),
  ('bin-p12-hp-2023', 1, '2023-05-15T07:01:25.339+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('HISTORY AND PHYSICAL, PREOPERATIVE
Daniel Kowalczyk, 57 M        2023-05-15 06:45        S. Haverford, MD

HPI  For right total knee arthroplasty, end-stage osteoarthritis.
PMH  Hypertension, sleep apnea (CPAP brought), obesity, depression.
PSH  Right medial meniscectomy 1994. No trouble with anesthesia.
ALLERGIES  Penicillin: hives, according to the paper chart (taken over by
     T. Brooks, RN, yesterday). No others known.
MEDS Amlodipine 5 mg taken this morning. Meloxicam stopped a week ago.
SOCIAL  Married, two sons, stopped smoking 2015, two beers on weekends.
ROS  No chest pain, no fever, no urinary symptoms.
EXAM BP 134/82, HR 76, SpO2 96 %, 104 kg. Airway Mallampati II. Heart and
     lungs normal. Knee skin intact.
LABS Hemoglobin 14.8, creatinine 0.9, HbA1c 5.8 %, MRSA screen negative.
A/P  Ready for surgery. Spinal anesthesia. Vancomycin 1.5 g over 90 minutes.
     Tranexamic acid. Aspirin 81 mg bid for clots. CPAP at night.
' AS BLOB)),
  ('bin-p12-surgery-2023', 1, '2023-05-15T11:36:04.188+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('SURGICAL OPERATION NOTE
Daniel Kowalczyk, 57 M      2023-05-15      Surgeon: S. Haverford, MD

DIAGNOSIS   Osteoarthritis, right knee
OPERATION   Right total knee arthroplasty, cemented, posterior-stabilized
ANESTHESIA  Spinal, light sedation       TOURNIQUET  68 minutes, 280 mmHg

EVENTS  At 08:05, during the vancomycin infusion, red face and itching. Rate
halved, diphenhydramine 25 mg, gone in 20 minutes, infusion completed. Not an
allergy.

PROCEDURE  Chlorhexidine prep. Midline incision, medial parapatellar approach.
Loose body removed. Distal femoral cut 5 degrees valgus, tibial cut
perpendicular. Femur size 6, tibia 5, insert 10 mm, patella 35 mm resurfaced.
Balanced in flexion and extension, tracking good. Pulse lavage. Cement with
gentamicin. Closed in layers, no drain. Paper dressing.

BLOOD LOSS 150 mL    SPECIMEN none    COMPLICATIONS none
POSTOPERATIVE  Weight as tolerated today.
' AS BLOB)),
  -- Whoever may not see the document may not see its binary: securityContext.
  ('bin-p12-psych-2024', 1, '2024-04-11T17:02:37.021+00:00',
   'text/plain; charset=utf-8',
   '{"reference": "DocumentReference/doc-p12-psych-2024"}',
   CAST('BEHAVIORAL HEALTH PROGRESS NOTE - RESTRICTED
Daniel Kowalczyk, 58 M       2024-04-11       A. Delgado, NP

SUBJECTIVE  Second visit. Low mood since he had to leave the shipyard. Sleeps
five hours, wakes at four. Less interest in his boat. Eats. No thoughts of
harming himself, asked directly. Wife supportive. Drinks two beers a week.
PHQ-9 today 14 (was 19 in February).

ALLERGIES  Penicillin, chlorhexidine; oxycodone and vancomycin intolerance.
MEDICATION  Sertraline 50 mg since February, no side effect. Amlodipine 5 mg.

MENTAL STATUS  On time, tidy, slow at first, then warm. Mood "getting there".
Thought clear. No psychosis. Insight good.

ASSESSMENT  Depressive disorder, single episode, moderate, responding.
PLAN  Sertraline 100 mg. Weekly walking group at the senior center. Cognitive
therapy, session 3 next week. Safety plan reviewed. Return in four weeks.
' AS BLOB)),
  ('bin-p12-consult-2025', 1, '2025-09-09T13:20:16.845+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('ALLERGY CONSULT NOTE
Daniel Kowalczyk, 59 M      2025-09-09      J. Whitmore, MD

QUESTION  Is he allergic to penicillin? Second knee to be replaced in winter.

HISTORY  Label since about 1972 (age 6): his late mother spoke of "spots" with
scarlet fever. Hives in the paper chart were never seen by anyone. Had
vancomycin in 2023 with flushing. Chlorhexidine: rash in 2023.

TESTS  Penicilloyl-polylysine, penicillin G, ampicillin: prick and intradermal
negative, histamine 6 mm. Amoxicillin 50 mg, then 450 mg by mouth: nothing seen
in two hours.

ASSESSMENT  Not allergic to penicillin. Label removed (refuted).
PLAN  Cefazolin for the next operation. Povidone-iodine instead of
chlorhexidine; test for chlorhexidine IgE drawn. Letter to patient, pharmacy
and Dr. Haverford.
' AS BLOB)),
  ('bin-p12-discharge-2023', 1, '2023-05-18T13:05:44.256+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('DISCHARGE SUMMARY
Daniel Kowalczyk, 57 M     Admitted 2023-05-15     Discharged 2023-05-18

PROCEDURE  Left total knee arthroplasty, 2023-05-15 (S. Haverford, MD)

COURSE  Walking with a frame on the day of surgery, stairs on day 2. Nausea and
vomiting on oxycodone, changed to tramadol. Red itchy square where the
chlorhexidine prep had been, settling. Flexion 85 degrees. Hemoglobin 12.1.

ALLERGIES  Penicillin.

MEDICATION  Tramadol 50 mg every 6 hours as needed, acetaminophen 1 g tid,
aspirin 81 mg twice daily for four weeks, amlodipine 5 mg.

FOLLOW-UP  Wound check 2023-05-30. Physical therapy three times a week.
Call for fever, drainage, calf pain.
' AS BLOB)),
  ('bin-p12-discharge-2023-corrected', 1, '2023-05-19T09:29:58.914+00:00',
   'text/plain; charset=utf-8',
   NULL,
   CAST('DISCHARGE SUMMARY - CORRECTED, REPLACES THE FIRST
Daniel Kowalczyk, 57 M     Admitted 2023-05-15     Discharged 2023-05-18

PROCEDURE  Right total knee arthroplasty, 2023-05-15 (S. Haverford, MD)

COURSE  Walking with a frame on the day of surgery, stairs on day 2. Nausea and
vomiting on oxycodone, changed to tramadol. Red itchy square where the
chlorhexidine prep had been, settling. Flexion 85 degrees. Hemoglobin 12.1.

ALLERGIES  Penicillin (hives, from the old chart). Chlorhexidine (rash).
Oxycodone (nausea, vomiting). Vancomycin: flushing with fast infusion.

MEDICATION  Tramadol 50 mg every 6 hours as needed, acetaminophen 1 g tid,
aspirin 81 mg twice daily for four weeks, amlodipine 5 mg.

FOLLOW-UP  Wound check 2023-05-30. Physical therapy three times a week.
Call for fever, drainage, calf pain.
' AS BLOB));

-- p13, Theo Okafor, and p14
INSERT INTO binary (
  id, version_id, last_updated, content_type, data
) VALUES
  ('bin-p13-hp-2025', 1, '2025-04-20T12:44:31.173+00:00',
   'text/plain; charset=utf-8',
   CAST('NEWBORN HISTORY AND PHYSICAL
Theo Okafor, M, born 2025-04-19 06:42, 39w3d        K. Lindholm, MD

BIRTH    Spontaneous vaginal, Apgar 8 and 9, 3350 g, 51 cm, head 35 cm.
MOTHER   Grace, 30, G1. Group B streptococcus negative, blood group O positive.
FEEDING  Breast, eight times in 24 hours. Urine and meconium passed.
ALLERGIES  None known.
EXAM     Pink, active. Fontanelle soft, red reflex both eyes, palate whole.
         Heart regular without murmur, femoral pulses equal. Hips stable.
         Testes descended. Tone and Moro normal.
DATA     Glucose 62. Direct Coombs negative. Bilirubin 6.1 at 30 hours.
PLAN     Vitamin K and hepatitis B vaccine given. Hearing passed. Newborn
         screen sent. Vitamin D 400 IU. Weight check at five days.
' AS BLOB)),
  ('bin-p13-progress-2025', 1, '2025-06-20T11:50:05.428+00:00',
   'text/html; charset=utf-8',
   CAST('<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Well child visit, 2 months</title></head>
<body>
<h1>Well child visit, 2 months</h1>
<p>Theo Okafor, 2025-06-20, Karin Lindholm, MD</p>
<p><b>History (mother):</b> breastfed, smiles, sleeps four hours at a time.
No known allergies. Vitamin D daily.</p>
<p><b>Growth:</b> 5.6 kg (52nd), 58 cm (48th), head 39 cm (50th).</p>
<p><b>Exam:</b> follows with the eyes, heart and hips normal, umbilicus dry,
mild cradle cap.</p>
<p><b>Assessment:</b> healthy infant, growth along the curve.</p>
<p><b>Plan:</b></p>
<ul>
<li>First DTaP, polio, Hib, pneumococcal and rotavirus vaccines given.</li>
<li>Tummy time, back to sleep.</li>
<li>Next visit at four months.</li>
</ul>
</body>
</html>
' AS BLOB)),
  ('bin-p14-ed-2020', 1, '2023-05-16T09:52:47.569+00:00',
   'text/plain; charset=utf-8',
   CAST('EMERGENCY DEPARTMENT NOTE
Dan Kowalczyk, 53 M          2020-02-11          scanned from paper 2023-05-16

CC  Cough and fever, five days.
PE  T 38.3, SpO2 96 %. Crackles left base.
Allergies: penicillin as a child.
Ceftriaxone 1 g IV. Thirty minutes later faint red spots on the chest, no
itching; stopped, doxycycline 100 mg twice daily instead.
Chest film: left lower lobe infiltrate. Home, family doctor in three days.
' AS BLOB));


-- ==== DocumentReference =====================================================
-- service.md 2.2. Every document has the category clinical-note; a second one names the department.

-- p1, Amelia Hartwell: nine documents, with every must-support element of US Core
INSERT INTO document_reference (
  id, version_id, last_updated, meta, master_identifier, identifier, status, doc_status, date, type, category,
  subject, author, authenticator, custodian, relates_to, description, content, context
) VALUES
  ('doc-p1-progress-2023', 1, '2023-02-14T12:40:09.320+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL, NULL,
   'current', 'final', '2023-02-14T12:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   'Yearly visit, diabetes at goal',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-progress-2023",
       "title": "Yearly visit 2023", "creation": "2023-02-14T12:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2023-checkup"}],
     "period": {"start": "2023-02-14T09:15:00+00:00", "end": "2023-02-14T09:50:00+00:00"}}'),
  -- A scan: identifier with use, system and value; an image; the author is an organization.
  ('doc-p1-scan-2023', 1, '2023-01-09T11:05:31.004+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   '[{"use": "official", "system": "http://lakeside.example/fhir/scan-id", "value": "SCAN-2023-000117"}]',
   'current', NULL, '2023-01-09T11:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   'Letter from the previous clinic',
   '[{"attachment": {"contentType": "image/png", "url": "Binary/bin-p1-scan-2023", "title": "Referral letter, scanned",
       "creation": "2023-01-09T11:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   NULL),
  ('doc-p1-ed-2024', 1, '2024-01-18T19:30:44.710+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL, NULL,
   'current', 'final', '2024-01-18T19:25:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL, NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-ed-2024",
       "title": "Emergency department note", "creation": "2024-01-18T19:25:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:edes:2007",
       "display": "Emergency Department Encounter Summary (EDES)"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-ed"}],
     "period": {"start": "2024-01-18T15:20:00+00:00", "end": "2024-01-18T19:05:00+00:00"}}'),
  -- All that US Core calls must-support on one resource, and more: masterIdentifier, context.event, facilityType,
  -- practiceSetting, sourcePatientInfo, related.
  ('doc-p1-hp-2024', 1, '2024-01-18T22:15:20.095+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '{"system": "urn:ietf:rfc:3986", "value": "urn:uuid:5d1c9d0e-3b61-4c5e-9d55-6c0f0a7b1e01"}',
   '[{"use": "official", "system": "http://lakeside.example/fhir/document-id", "value": "LGH-D-2024-00871"}]',
   'current', 'final', '2024-01-18T22:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34117-2", "display": "History and physical note"}],
     "text": "Admission history and physical"}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   'Admission for pneumonia',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-hp-2024",
       "title": "History and physical", "creation": "2024-01-18T22:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-pneumonia"}],
     "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"},
     "event": [{"coding": [{"system": "http://snomed.info/sct", "code": "32485007", "display": "Hospital admission"}]}],
     "facilityType": {"coding": [{"system": "http://snomed.info/sct", "code": "22232009", "display": "Hospital"}]},
     "practiceSetting": {"coding": [{"system": "http://snomed.info/sct", "code": "394802001",
        "display": "General medicine"}]},
     "sourcePatientInfo": {"reference": "Patient/p1"}, "related": [{"reference": "DocumentReference/doc-p1-ed-2024"}]}'),
  -- Appends to the discharge summary.
  ('doc-p1-progress-2024', 1, '2024-02-06T13:03:50.271+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL, NULL,
   'current', 'final', '2024-02-06T13:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"code": "appends", "target": {"reference": "DocumentReference/doc-p1-discharge-2024"}}]',
   NULL,
   '[{"attachment": {"contentType": "text/html; charset=utf-8", "url": "Binary/bin-p1-progress-2024",
       "title": "Visit after pneumonia", "creation": "2024-02-06T13:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-followup"}],
     "period": {"start": "2024-02-06T10:30:00+00:00", "end": "2024-02-06T10:55:00+00:00"}}'),
  -- Two contents: the note as text, and a PDF for the patient.
  ('doc-p1-consult-2025', 1, '2025-05-20T17:45:36.818+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL, NULL,
   'current', 'final', '2025-05-20T17:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"},
     {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}]',
   '{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   NULL,
   'Penicillin label confirmed by skin test',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-consult-2025",
       "title": "Allergy consultation", "creation": "2025-05-20T17:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}},
     {"attachment": {"contentType": "application/pdf", "url": "Binary/bin-p1-passport-2025",
       "title": "Drug allergy passport", "creation": "2025-05-20T17:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2025-allergy"}],
     "period": {"start": "2025-05-20T14:00:00+00:00", "end": "2025-05-20T15:10:00+00:00"},
     "facilityType": {"coding": [{"system": "http://snomed.info/sct", "code": "35971002",
        "display": "Ambulatory care site"}]},
     "related": [{"reference": "AllergyIntolerance/al-p1-penicillin"}]}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, master_identifier, identifier, status, doc_status, date, type, category,
  subject, author, authenticator, custodian, relates_to, description, content, context, extra
) VALUES
  -- A second category: the department. What the report found is contained, too.
  ('doc-p1-imaging-2024', 1, '2024-01-18T16:31:02.540+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL, NULL,
   'current', 'final', '2024-01-18T16:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18748-4", "display": "Diagnostic imaging study"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "LP29684-5", "display": "Radiology"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-mensah", "display": "Dr. Kofi Mensah"}]',
   '{"reference": "Practitioner/dr-mensah", "display": "Dr. Kofi Mensah"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL, NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-imaging-2024",
       "title": "Chest, two views", "creation": "2024-01-18T16:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:rad:TEXT",
       "display": "Radiology XDS-I Text"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-ed"}],
     "period": {"start": "2024-01-18T15:20:00+00:00", "end": "2024-01-18T19:05:00+00:00"},
     "related": [{"reference": "#infiltrate"}, {"reference": "#key-image"}]}',
   '{"contained": [{"resourceType": "Observation", "id": "infiltrate",
       "status": "final",
       "category": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/observation-category",
          "code": "imaging", "display": "Imaging"}]}],
       "code": {"coding": [{"system": "http://loinc.org", "code": "18782-3",
          "display": "Radiology Study observation (narrative)"}]},
       "subject": {"reference": "Patient/p1"}, "effectiveDateTime": "2024-01-18T16:05:00+00:00",
       "valueString": "Airspace consolidation in the right lower lobe; small right pleural effusion"},
      {"resourceType": "Media", "id": "key-image", "status": "completed",
       "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/media-type", "code": "image",
          "display": "Image"}]},
       "subject": {"reference": "Patient/p1"}, "createdDateTime": "2024-01-18T16:05:00+00:00",
       "content": {"contentType": "image/png", "title": "Right lower lobe, thumbnail", "data": "iVBORw0KGgoAAAANSUhEUgAAABgAAAAYCAAAAADFHGIkAAAAxUlEQVR42nXQB1YCQRBF0b8cUIJkkJyTIiI5Z0Rx7YgwSG56YDg0oRZwT9X7UD1odE9Gs9X+7PL4AqFILPGSSmeyeagftXqDyWJzON1efzAcjSdf394/cgUQoAgClECAMghQAQGqIEANBKiDAA0QoAkFSFegBRn8/s3mi9VGBG1wMJ5Mpf/lessE0MEZ7JgAuuAXToAJoAcBMHYGffCXToAJYADecA98Qm5QABPAEHL0HfAFZaWLBg6+cbvSAYxwM+sR/OwBvNjgZVL4Pj8AAAAASUVORK5CYII="}}]}'),
  -- A laboratory report that does have content (HTML), and one of its results.
  ('doc-p1-lab-2024', 1, '2024-01-19T09:12:18.662+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-24-00419"}]',
   'current', 'final', '2024-01-19T09:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   NULL, NULL,
   '[{"attachment": {"contentType": "text/html; charset=utf-8", "url": "Binary/bin-p1-lab-2024",
       "title": "Laboratory report", "creation": "2024-01-19T09:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-pneumonia"}],
     "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"},
     "related": [{"reference": "#crp"}]}',
   '{"contained": [{"resourceType": "Observation", "id": "crp",
       "status": "final",
       "category": [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/observation-category",
          "code": "laboratory", "display": "Laboratory"}]}],
       "code": {"coding": [{"system": "http://loinc.org", "code": "1988-5",
          "display": "C reactive protein [Mass/volume] in Serum or Plasma"}]},
       "subject": {"reference": "Patient/p1"}, "effectiveDateTime": "2024-01-19T06:10:00+00:00",
       "valueQuantity": {"value": 188, "unit": "mg/L", "system": "http://unitsofmeasure.org", "code": "mg/L"}}]}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, authenticator,
  custodian, description, content, context
) VALUES
  -- Three versions: preliminary, final, amended. Each points to a binary of its own.
  ('doc-p1-discharge-2024', 1, '2024-01-23T15:20:05.150+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'preliminary', '2024-01-23T15:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   'Discharge summary, pneumonia',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-discharge-2024-v1",
       "title": "Discharge summary, preliminary", "creation": "2024-01-23T15:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-pneumonia"}],
     "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"}}'),
  ('doc-p1-discharge-2024', 2, '2024-01-24T09:41:33.009+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-01-24T09:40:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   'Discharge summary, pneumonia',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-discharge-2024-v2",
       "title": "Discharge summary", "creation": "2024-01-24T09:40:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-pneumonia"}],
     "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"}}'),
  ('doc-p1-discharge-2024', 3, '2024-01-30T11:06:58.477+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'amended', '2024-01-30T11:05:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p1", "display": "Amelia Hartwell"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   'Discharge summary, pneumonia: organism and antibiotic days corrected',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p1-discharge-2024-v3",
       "title": "Discharge summary, amended", "creation": "2024-01-30T11:05:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p1-2024-pneumonia"}],
     "period": {"start": "2024-01-18T19:05:00+00:00", "end": "2024-01-23T14:30:00+00:00"}}');

-- p2, Luis Ortega Ruiz
INSERT INTO document_reference (
  id, version_id, last_updated, meta, identifier, status, doc_status, date, type, category, subject, author,
  authenticator, custodian, description, content, context, extra
) VALUES
  ('doc-p2-ed-2023', 1, '2023-06-11T07:41:12.083+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2023-06-11T07:35:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p2-ed-2023",
       "title": "Emergency department note", "creation": "2023-06-11T07:35:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:edes:2007",
       "display": "Emergency Department Encounter Summary (EDES)"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p2-2023-ed"}],
     "period": {"start": "2023-06-11T03:10:00+00:00", "end": "2023-06-11T07:30:00+00:00"}}',
   NULL),
  ('doc-p2-surgery-2023', 1, '2023-06-11T11:20:47.366+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2023-06-11T11:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11504-8", "display": "Surgical operation note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '[{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}]',
   '{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p2-surgery-2023",
       "title": "Laparoscopic appendectomy", "creation": "2023-06-11T11:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p2-2023-appendix"}],
     "period": {"start": "2023-06-11T07:30:00+00:00", "end": "2023-06-13T11:45:00+00:00"},
     "facilityType": {"coding": [{"system": "http://snomed.info/sct", "code": "22232009", "display": "Hospital"}]},
     "practiceSetting": {"coding": [{"system": "http://snomed.info/sct", "code": "394802001",
        "display": "General medicine"}]}}',
   NULL),
  ('doc-p2-pathology-2023', 1, '2023-06-15T14:02:29.945+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-23-05817"}]',
   'current', 'final', '2023-06-15T14:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11526-1", "display": "Pathology study"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "LP7839-6", "display": "Pathology"}]}]',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   NULL,
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   NULL,
   '[{"attachment": {"contentType": "application/pdf", "url": "Binary/bin-p2-pathology-2023",
       "title": "Pathology, appendix", "creation": "2023-06-15T14:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p2-2023-appendix"}],
     "period": {"start": "2023-06-11T07:30:00+00:00", "end": "2023-06-13T11:45:00+00:00"}}',
   NULL),
  ('doc-p2-discharge-2023', 1, '2023-06-13T13:10:55.721+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2023-06-13T13:05:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '[{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p2-discharge-2023",
       "title": "Discharge summary", "creation": "2023-06-13T13:05:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p2-2023-appendix"}],
     "period": {"start": "2023-06-11T07:30:00+00:00", "end": "2023-06-13T11:45:00+00:00"}}',
   NULL),
  -- In Spanish: extra.language, attachment.language, the note itself. The description carries its translation as
  -- an extension of a primitive.
  ('doc-p2-progress-2025', 1, '2025-04-03T17:22:40.187+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2025-04-03T17:20:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}],
     "text": "Nota de evolución"}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p2", "display": "Luis Ortega Ruiz"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   'Asma no controlada, alergia a los ácaros',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "language": "es", "url": "Binary/bin-p2-progress-2025",
       "title": "Nota de evolución", "creation": "2025-04-03T17:20:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p2-2025-visit"}],
     "period": {"start": "2025-04-03T16:00:00+00:00", "end": "2025-04-03T16:25:00+00:00"}}',
   '{"language": "es",
     "_description": {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/translation",
        "extension": [{"url": "lang", "valueCode": "en"},
         {"url": "content", "valueString": "Asthma not controlled, dust mite allergy"}]}]}}');

-- p3, Noah Lindqvist
INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian,
  description, content, context
) VALUES
  ('doc-p3-progress-2023', 1, '2023-03-09T12:33:15.608+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-03-09T12:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p3-progress-2023",
       "title": "Well child visit, 6 years", "creation": "2023-03-09T12:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2023-wellchild"}],
     "period": {"start": "2023-03-09T09:30:00+00:00", "end": "2023-03-09T10:00:00+00:00"}}'),
  ('doc-p3-consult-2024', 1, '2024-02-27T15:48:03.232+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-02-27T15:45:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}]',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   NULL,
   '[{"attachment": {"contentType": "text/html; charset=utf-8", "url": "Binary/bin-p3-consult-2024",
       "title": "Allergy consult", "creation": "2024-02-27T15:45:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2024-consult"}],
     "period": {"start": "2024-02-27T11:00:00+00:00", "end": "2024-02-27T11:50:00+00:00"}}'),
  ('doc-p3-procedure-2024', 1, '2024-06-25T14:05:21.559+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-06-25T14:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "28570-0", "display": "Procedure note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}]',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   'Egg challenge passed',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p3-procedure-2024",
       "title": "Oral food challenge, egg", "creation": "2024-06-25T14:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2024-challenge"}],
     "period": {"start": "2024-06-25T08:30:00+00:00", "end": "2024-06-25T13:00:00+00:00"}}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content,
  context
) VALUES
  -- Three versions again; the last corrects the allergies.
  ('doc-p3-ed-2025', 1, '2025-01-30T23:14:37.890+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'preliminary', '2025-01-30T23:12:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p3-ed-2025-v1",
       "title": "Emergency department note, preliminary", "creation": "2025-01-30T23:12:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2025-ed"}],
     "period": {"start": "2025-01-30T19:45:00+00:00", "end": "2025-01-30T23:10:00+00:00"}}'),
  ('doc-p3-ed-2025', 2, '2025-01-31T00:25:14.116+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-01-31T00:20:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p3-ed-2025-v2",
       "title": "Emergency department note", "creation": "2025-01-31T00:20:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2025-ed"}],
     "period": {"start": "2025-01-30T19:45:00+00:00", "end": "2025-01-30T23:10:00+00:00"}}'),
  ('doc-p3-ed-2025', 3, '2025-02-03T08:55:49.403+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'amended', '2025-02-03T08:50:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p3", "display": "Noah Lindqvist"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p3-ed-2025-v3",
       "title": "Emergency department note, amended", "creation": "2025-02-03T08:50:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p3-2025-ed"}],
     "period": {"start": "2025-01-30T19:45:00+00:00", "end": "2025-01-30T23:10:00+00:00"}}');

-- p4, Grace Okafor
INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content,
  context
) VALUES
  ('doc-p4-hp-2025', 1, '2025-04-18T23:02:08.275+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-04-18T23:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34117-2", "display": "History and physical note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p4", "display": "Grace Okafor"}',
   '[{"reference": "Practitioner/dr-farrow", "display": "Dr. Elaine Farrow"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p4-hp-2025",
       "title": "Labor admission", "creation": "2025-04-18T23:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p4-2025-birth"}],
     "period": {"start": "2025-04-18T22:10:00+00:00", "end": "2025-04-21T12:30:00+00:00"}}'),
  ('doc-p4-discharge-2025', 1, '2025-04-21T12:20:51.640+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-04-21T12:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p4", "display": "Grace Okafor"}',
   '[{"reference": "Practitioner/dr-farrow", "display": "Dr. Elaine Farrow"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p4-discharge-2025",
       "title": "Postpartum discharge summary", "creation": "2025-04-21T12:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p4-2025-birth"}],
     "period": {"start": "2025-04-18T22:10:00+00:00", "end": "2025-04-21T12:30:00+00:00"}}');

-- p5, Walter Brandt: eight documents, and one deleted
INSERT INTO document_reference (
  id, version_id, last_updated, meta, identifier, status, doc_status, date, type, category, subject, author,
  authenticator, custodian, description, content, context
) VALUES
  ('doc-p5-consult-2023', 1, '2023-08-22T12:31:17.059+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2023-08-22T12:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-consult-2023",
       "title": "Cardiology consultation", "creation": "2023-08-22T12:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2023-cardiology"}],
     "period": {"start": "2023-08-22T10:00:00+00:00", "end": "2023-08-22T11:00:00+00:00"}}'),
  -- A period without an encounter.
  ('doc-p5-imaging-2023', 1, '2023-08-22T09:58:44.381+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2023-08-22T09:55:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18748-4", "display": "Diagnostic imaging study"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "LP29708-2", "display": "Cardiology"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-imaging-2023",
       "title": "Echocardiogram", "creation": "2023-08-22T09:55:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:rad:TEXT",
       "display": "Radiology XDS-I Text"}}]',
   '{"period": {"start": "2023-08-22T09:20:00+00:00", "end": "2023-08-22T09:50:00+00:00"}}'),
  -- meta.tag and meta.source.
  ('doc-p5-hp-2024', 1, '2024-09-03T21:14:32.702+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"],
     "tag": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ActReason", "code": "HTEST",
       "display": "test health data"}],
     "source": "https://ehr.lakeside.example/notes"}',
   NULL,
   'current', 'final', '2024-09-03T21:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34117-2", "display": "History and physical note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-hp-2024",
       "title": "History and physical", "creation": "2024-09-03T21:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2024-hf"}],
     "period": {"start": "2024-09-03T18:20:00+00:00", "end": "2024-09-11T15:15:00+00:00"}}'),
  ('doc-p5-progress-2024', 1, '2024-09-06T08:47:26.924+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2024-09-06T08:45:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-progress-2024",
       "title": "Progress note, day 4", "creation": "2024-09-06T08:45:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2024-hf"}],
     "period": {"start": "2024-09-03T18:20:00+00:00", "end": "2024-09-11T15:15:00+00:00"}}'),
  ('doc-p5-lab-2024', 1, '2024-09-10T08:19:55.048+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-24-09120"}]',
   'current', 'final', '2024-09-10T08:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   NULL,
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-lab-2024",
       "title": "Laboratory report", "creation": "2024-09-10T08:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2024-hf"}],
     "period": {"start": "2024-09-03T18:20:00+00:00", "end": "2024-09-11T15:15:00+00:00"}}'),
  ('doc-p5-discharge-2024', 1, '2024-09-11T15:40:13.299+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2024-09-11T15:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}]',
   '{"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-discharge-2024",
       "title": "Discharge summary", "creation": "2024-09-11T15:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2024-hf"}],
     "period": {"start": "2024-09-03T18:20:00+00:00", "end": "2024-09-11T15:15:00+00:00"},
     "facilityType": {"coding": [{"system": "http://snomed.info/sct", "code": "22232009", "display": "Hospital"}]},
     "practiceSetting": {"coding": [{"system": "http://snomed.info/sct", "code": "394802001",
        "display": "General medicine"}]}}'),
  -- A scanned PDF; the author is the patient.
  ('doc-p5-progress-2025', 1, '2025-02-12T14:55:40.500+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2025-02-12T14:50:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/np-delgado", "display": "Ana Delgado, NP"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-progress-2025",
       "title": "Home visit", "creation": "2025-02-12T14:50:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p5-2025-home"}],
     "period": {"start": "2025-02-12T11:00:00+00:00", "end": "2025-02-12T12:10:00+00:00"}}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, identifier, status, doc_status, date, type, category, subject, author,
  authenticator, custodian, description, content, context, extra
) VALUES
  -- An advance directive, of which US Core 8 has a profile.
  ('doc-p5-directive-2024', 1, '2024-09-05T16:12:08.631+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference",
      "http://hl7.org/fhir/us/core/StructureDefinition/us-core-adi-documentreference"]}',
   '[{"use": "official", "system": "http://lakeside.example/fhir/scan-id", "value": "SCAN-2024-002216"}]',
   'current', NULL, '2024-09-05T16:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "42348-3", "display": "Advance healthcare directives"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "42348-3", "display": "Advance healthcare directives"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Patient/p5", "display": "Walter Brandt"},
     {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   'No resuscitation, no intubation',
   '[{"attachment": {"contentType": "application/pdf", "url": "Binary/bin-p5-directive-2024",
       "title": "Advance healthcare directive", "creation": "2024-09-05T16:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   NULL,
   '{"extension": [{"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-authentication-time",
       "valueDateTime": "2024-09-05T15:40:00+00:00"}]}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content
) VALUES
  -- Deleted: it belonged to another Mr. Brandt.
  ('doc-p5-misfiled', 1, '2024-05-14T10:10:10.101+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-05-14T10:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-misfiled",
       "title": "Progress note", "creation": "2024-05-14T10:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]'),
  ('doc-p5-misfiled', 2, '2024-05-15T08:21:02.034+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'amended', '2024-05-15T08:20:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p5", "display": "Walter Brandt"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p5-misfiled-v2",
       "title": "Progress note", "creation": "2024-05-15T08:20:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]');

INSERT INTO document_reference (
  id, version_id, last_updated, deleted
) VALUES
  ('doc-p5-misfiled', 3, '2024-05-17T07:59:30.777+00:00', TRUE);

-- p6, Mei-Ling Tan
INSERT INTO document_reference (
  id, version_id, last_updated, meta, identifier, status, doc_status, date, type, category, subject, author,
  custodian, content, context
) VALUES
  ('doc-p6-procedure-2024', 1, '2024-03-27T12:15:28.413+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2024-03-27T12:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "28570-0", "display": "Procedure note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p6", "display": "Mei-Ling Tan"}',
   '[{"reference": "Practitioner/dr-novak", "display": "Dr. Petr Novak"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p6-procedure-2024",
       "title": "Colonoscopy", "creation": "2024-03-27T12:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p6-2024-colonoscopy"}],
     "period": {"start": "2024-03-27T08:00:00+00:00", "end": "2024-03-27T11:40:00+00:00"}}'),
  ('doc-p6-pathology-2024', 1, '2024-04-02T16:33:07.836+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-24-03391"}]',
   'current', 'final', '2024-04-02T16:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11526-1", "display": "Pathology study"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "LP7839-6", "display": "Pathology"}]}]',
   '{"reference": "Patient/p6", "display": "Mei-Ling Tan"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"},
     {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p6-pathology-2024",
       "title": "Pathology, colon polyps", "creation": "2024-04-02T16:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p6-2024-colonoscopy"}],
     "period": {"start": "2024-03-27T08:00:00+00:00", "end": "2024-03-27T11:40:00+00:00"}}'),
  ('doc-p6-scan-2024', 1, '2024-03-27T09:31:41.292+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '[{"use": "official", "system": "http://lakeside.example/fhir/scan-id", "value": "SCAN-2024-000803"}]',
   'current', NULL, '2024-03-27T09:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "28570-0", "display": "Procedure note"}],
     "text": "Consent to a procedure"}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p6", "display": "Mei-Ling Tan"}',
   '[{"reference": "Practitioner/rn-brooks", "display": "Tyrone Brooks, RN"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "image/png", "url": "Binary/bin-p6-scan-2024", "title": "Consent form, scanned",
       "creation": "2024-03-27T09:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p6-2024-colonoscopy"}],
     "period": {"start": "2024-03-27T08:00:00+00:00", "end": "2024-03-27T11:40:00+00:00"}}');

-- p7, Samuel Whitefeather
INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content,
  context
) VALUES
  -- Still preliminary.
  ('doc-p7-ed-2024', 1, '2024-08-17T21:05:14.757+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'preliminary', '2024-08-17T21:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '[{"reference": "Practitioner/dr-castellanos", "display": "Dr. Rafael Castellanos"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p7-ed-2024",
       "title": "Emergency department note", "creation": "2024-08-17T21:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:edes:2007",
       "display": "Emergency Department Encounter Summary (EDES)"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p7-2024-sting"}],
     "period": {"start": "2024-08-17T15:55:00+00:00", "end": "2024-08-17T20:45:00+00:00"}}'),
  ('doc-p7-consult-2024', 1, '2024-09-24T12:25:03.916+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-09-24T12:20:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}]',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p7-consult-2024",
       "title": "Allergy consult", "creation": "2024-09-24T12:20:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p7-2024-allergist"}],
     "period": {"start": "2024-09-24T09:30:00+00:00", "end": "2024-09-24T10:30:00+00:00"}}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content
) VALUES
  -- Entered in error: kept, and marked.
  ('doc-p7-wrong-patient', 1, '2024-10-01T09:14:20.068+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2024-10-01T09:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p7-wrong-patient",
       "title": "Progress note", "creation": "2024-10-01T09:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]'),
  ('doc-p7-wrong-patient', 2, '2024-10-01T14:48:52.225+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'entered-in-error', 'entered-in-error', '2024-10-01T09:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p7", "display": "Samuel Whitefeather"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p7-wrong-patient",
       "title": "Progress note", "creation": "2024-10-01T09:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]');

-- p8, Priya Raghunathan
INSERT INTO document_reference (
  id, version_id, last_updated, meta, text, status, doc_status, date, type, category, subject, author, custodian,
  content, context
) VALUES
  -- The narrative was written by hand.
  ('doc-p8-consult-2023', 1, '2023-11-02T16:20:33.384+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   '{"status": "additional",
     "div": "<div xmlns=\"http://www.w3.org/1999/xhtml\"><p><b>Patch test</b> of Priya Raghunathan, 2 November 2023, by Dr. Whitmore.</p><p>Positive: nickel, fragrance mix I, balsam of Peru. The full table is in the attachment.</p></div>"}',
   'current', 'final', '2023-11-02T16:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}]',
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   '[{"attachment": {"contentType": "text/html; charset=utf-8", "url": "Binary/bin-p8-consult-2023",
       "title": "Patch test", "creation": "2023-11-02T16:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p8-2023-patch"}],
     "period": {"start": "2023-11-02T14:00:00+00:00", "end": "2023-11-02T14:50:00+00:00"}}'),
  ('doc-p8-progress-2025', 1, '2025-07-15T18:31:46.543+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   NULL,
   'current', 'final', '2025-07-15T18:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p8", "display": "Priya Raghunathan"}',
   '[{"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p8-progress-2025",
       "title": "Video visit", "creation": "2025-07-15T18:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p8-2025-virtual"}],
     "period": {"start": "2025-07-15T17:40:00+00:00", "end": "2025-07-15T18:05:00+00:00"}}');

-- p9 and p10: laboratory results without content (service.md 2.2), so they do not claim US Core
INSERT INTO document_reference (
  id, version_id, last_updated, identifier, status, doc_status, date, type, category, subject, author, custodian,
  description, context
) VALUES
  ('doc-p9-lab-2024', 1, '2024-11-26T13:02:11.110+00:00',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-24-11702"}]',
   'current', 'final', '2024-11-26T13:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p9", "display": "Tobias Ekström"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   'Lipid panel',
   NULL),
  ('doc-p9-lab-2025-03', 1, '2025-03-05T15:44:29.871+00:00',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-25-02288"}]',
   'current', 'final', '2025-03-05T15:40:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p9", "display": "Tobias Ekström"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   'Lipid panel, repeated',
   '{"encounter": [{"reference": "Encounter/enc-p9-2025-lab"}],
     "period": {"start": "2025-03-05T07:40:00+00:00", "end": "2025-03-05T07:55:00+00:00"}}'),
  ('doc-p9-lab-2025-10', 1, '2025-10-14T15:10:58.002+00:00',
   NULL,
   'current', 'preliminary', '2025-10-14T15:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p9", "display": "Tobias Ekström"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   'Thyroid function, one value pending',
   NULL),
  ('doc-p10-lab-2024', 1, '2024-05-06T14:27:45.365+00:00',
   '[{"use": "official", "system": "http://meridian-lab.example/fhir/report", "value": "MRL-24-04410"}]',
   'current', 'final', '2024-05-06T14:25:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p10", "display": "Hannah Feldman"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   'Complete blood count',
   '{"encounter": [{"reference": "Encounter/enc-p10-2024-lab"}],
     "period": {"start": "2024-05-06T07:35:00+00:00", "end": "2024-05-06T07:50:00+00:00"}}'),
  ('doc-p10-lab-2025', 1, '2025-12-02T14:06:19.734+00:00',
   NULL,
   'current', 'final', '2025-12-02T14:05:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11502-2", "display": "Laboratory report"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB",
        "display": "Laboratory"}]}]',
   '{"reference": "Patient/p10", "display": "Hannah Feldman"}',
   '[{"reference": "Practitioner/dr-rosen", "display": "Dr. Miriam Rosen"}]',
   '{"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}',
   'Ferritin',
   NULL);

-- p12, Daniel Kowalczyk: eight documents
INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, authenticator,
  custodian, security_label, content, context
) VALUES
  ('doc-p12-consult-2023', 1, '2023-04-26T13:15:38.627+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-04-26T13:10:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-consult-2023",
       "title": "Orthopedic consultation", "creation": "2023-04-26T13:10:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-ortho"}],
     "period": {"start": "2023-04-26T10:15:00+00:00", "end": "2023-04-26T11:00:00+00:00"}}'),
  ('doc-p12-imaging-2023', 1, '2023-04-26T10:02:53.480+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-04-26T10:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18748-4", "display": "Diagnostic imaging study"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]},
     {"coding": [{"system": "http://loinc.org", "code": "LP29684-5", "display": "Radiology"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-mensah", "display": "Dr. Kofi Mensah"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-imaging-2023",
       "title": "Right knee, three views", "creation": "2023-04-26T10:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:rad:TEXT",
       "display": "Radiology XDS-I Text"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-ortho"}],
     "period": {"start": "2023-04-26T10:15:00+00:00", "end": "2023-04-26T11:00:00+00:00"}}'),
  ('doc-p12-hp-2023', 1, '2023-05-15T07:01:25.339+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-05-15T07:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34117-2", "display": "History and physical note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   NULL,
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-hp-2023",
       "title": "Preoperative history and physical", "creation": "2023-05-15T07:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-knee"}],
     "period": {"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}}'),
  ('doc-p12-surgery-2023', 1, '2023-05-15T11:36:04.188+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-05-15T11:30:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11504-8", "display": "Surgical operation note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   '{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-surgery-2023",
       "title": "Right total knee arthroplasty", "creation": "2023-05-15T11:30:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-knee"}],
     "period": {"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}}'),
  -- A restricted note: securityLabel, and a securityContext on its binary.
  ('doc-p12-psych-2024', 1, '2024-04-11T17:02:37.021+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"],
     "security": [{"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "R",
       "display": "restricted"}]}',
   'current', 'final', '2024-04-11T17:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/np-delgado", "display": "Ana Delgado, NP"}]',
   NULL,
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "R",
        "display": "restricted"}]}]',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-psych-2024",
       "title": "Behavioral health progress note", "creation": "2024-04-11T17:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2024-psych"}],
     "period": {"start": "2024-04-11T15:00:00+00:00", "end": "2024-04-11T15:50:00+00:00"}}'),
  ('doc-p12-consult-2025', 1, '2025-09-09T13:20:16.845+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-09-09T13:15:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11488-4", "display": "Consult note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-whitmore", "display": "Dr. Julian Whitmore"}]',
   NULL,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   NULL,
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-consult-2025",
       "title": "Penicillin allergy testing", "creation": "2025-09-09T13:15:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2025-allergy"}],
     "period": {"start": "2025-09-09T09:00:00+00:00", "end": "2025-09-09T11:45:00+00:00"}}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content,
  context
) VALUES
  -- Superseded by the next: it named the wrong knee.
  ('doc-p12-discharge-2023', 1, '2023-05-18T13:05:44.256+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-05-18T13:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-discharge-2023",
       "title": "Discharge summary", "creation": "2023-05-18T13:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-knee"}],
     "period": {"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}}'),
  ('doc-p12-discharge-2023', 2, '2023-05-19T09:30:12.602+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'superseded', 'final', '2023-05-18T13:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-discharge-2023",
       "title": "Discharge summary", "creation": "2023-05-18T13:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-knee"}],
     "period": {"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}}');

INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian,
  relates_to, content, context
) VALUES
  ('doc-p12-discharge-2023-corrected', 1, '2023-05-19T09:29:58.914+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2023-05-19T09:25:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p12", "display": "Daniel Kowalczyk"}',
   '[{"reference": "Practitioner/dr-haverford", "display": "Dr. Simone Haverford"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"code": "replaces", "target": {"reference": "DocumentReference/doc-p12-discharge-2023"}}]',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p12-discharge-2023-corrected",
       "title": "Discharge summary, corrected", "creation": "2023-05-19T09:25:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem", "code": "urn:ihe:pcc:xds-ms:2007",
       "display": "XDS Medical Summaries"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p12-2023-knee"}],
     "period": {"start": "2023-05-15T06:30:00+00:00", "end": "2023-05-18T12:20:00+00:00"}}');

-- p13, Theo Okafor, and p14, the duplicate of p12
INSERT INTO document_reference (
  id, version_id, last_updated, meta, status, doc_status, date, type, category, subject, author, custodian, content,
  context
) VALUES
  ('doc-p13-hp-2025', 1, '2025-04-20T12:44:31.173+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-04-20T12:40:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34117-2", "display": "History and physical note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p13", "display": "Theo Okafor"}',
   '[{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p13-hp-2025",
       "title": "Newborn history and physical", "creation": "2025-04-20T12:40:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p13-2025-birth"}],
     "period": {"start": "2025-04-19T06:42:00+00:00", "end": "2025-04-21T12:30:00+00:00"}}'),
  ('doc-p13-progress-2025', 1, '2025-06-20T11:50:05.428+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2025-06-20T11:45:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": "Progress note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p13", "display": "Theo Okafor"}',
   '[{"reference": "Practitioner/dr-lindholm", "display": "Dr. Karin Lindholm"}]',
   '{"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}',
   '[{"attachment": {"contentType": "text/html; charset=utf-8", "url": "Binary/bin-p13-progress-2025",
       "title": "Well child visit, 2 months", "creation": "2025-06-20T11:45:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"encounter": [{"reference": "Encounter/enc-p13-2025-wellchild"}],
     "period": {"start": "2025-06-20T10:00:00+00:00", "end": "2025-06-20T10:25:00+00:00"}}'),
  -- The period is a partial date; the document is older than the record.
  ('doc-p14-ed-2020', 1, '2023-05-16T09:52:47.569+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"]}',
   'current', 'final', '2020-02-11T18:00:00+00:00',
   '{"coding": [{"system": "http://loinc.org", "code": "34111-5", "display": "Emergency department Note"}]}',
   '[{"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
        "code": "clinical-note", "display": "Clinical Note"}]}]',
   '{"reference": "Patient/p14", "display": "Dan Kowalczyk"}',
   '[{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}]',
   '{"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}',
   '[{"attachment": {"contentType": "text/plain; charset=utf-8", "url": "Binary/bin-p14-ed-2020",
       "title": "Emergency department note, 2020", "creation": "2020-02-11T18:00:00+00:00"},
      "format": {"system": "http://ihe.net/fhir/ValueSet/IHE.FormatCode.codesystem",
       "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient", "display": "mimeType Sufficient"}}]',
   '{"period": {"start": "2020-02-11"}}');


-- ==== Provenance ============================================================
-- Who wrote it, who sent it: both are organizations.

INSERT INTO provenance (
  id, version_id, last_updated, meta, target, occurred_period, occurred_date_time, recorded, policy, reason, activity,
  agent, entity, signature
) VALUES
  -- Author and transmitter are organizations, as US Core wants them.
  ('prov-p1-penicillin', 1, '2023-02-14T10:05:13.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p1-penicillin"}]',
   NULL, NULL,
   '2023-02-14T10:05:12.350+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"},
      "onBehalfOf": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  -- Two targets: one story for two allergies.
  ('prov-p1-list', 1, '2023-02-14T10:08:05.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p1-sulfa"}, {"reference": "AllergyIntolerance/al-p1-latex"}]',
   NULL, NULL,
   '2023-02-14T10:08:02.900+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"},
      "onBehalfOf": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   '[{"role": "source", "what": {"display": "Referral letter of Seaview Clinic, 2022-12-19"}}]',
   NULL),
  ('prov-p1-metformin', 1, '2023-08-09T08:12:48.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p1-metformin"}]',
   NULL, NULL,
   '2023-08-09T08:12:47.255+00:00',
   NULL,
   '[{"text": "Entered for the wrong patient"}]',
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "UPDATE",
       "display": "revise"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"},
      "onBehalfOf": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"},
      "onBehalfOf": {"reference": "Organization/org-northgate", "display": "Northgate Family Medicine"}}]',
   NULL, NULL),
  ('prov-p2-mariscos', 1, '2023-06-11T05:02:10.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p2-mariscos"}]',
   NULL, NULL,
   '2023-06-11T05:02:09.730+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  -- What was done, and on which document it rests.
  ('prov-p3-egg', 1, '2024-06-25T13:35:51.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p3-egg"}]',
   '{"start": "2024-06-25T09:00:00+00:00", "end": "2024-06-25T12:45:00+00:00"}',
   NULL,
   '2024-06-25T13:35:50.071+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "UPDATE",
       "display": "revise"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"},
      "onBehalfOf": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   '[{"role": "derivation", "what": {"reference": "DocumentReference/doc-p3-procedure-2024"}}]',
   NULL),
  ('prov-p4-nkda', 1, '2024-10-08T09:52:15.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p4-nkda"}]',
   NULL, NULL,
   '2024-10-08T09:52:14.665+00:00',
   NULL, NULL, NULL,
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  ('prov-p7-bee', 1, '2024-08-17T21:02:59.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p7-bee"}]',
   NULL,
   '2024-08-17T16:20:00+00:00',
   '2024-08-17T21:02:58.390+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  ('prov-p12-penicillin', 1, '2025-09-09T11:58:42.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "AllergyIntolerance/al-p12-penicillin"}]',
   NULL, NULL,
   '2025-09-09T11:58:41.294+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "UPDATE",
       "display": "revise"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"},
      "onBehalfOf": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   '[{"role": "source", "what": {"reference": "DocumentReference/doc-p12-consult-2025"}}]',
   NULL),
  -- From here on: documents. This one is signed.
  ('prov-p1-discharge', 1, '2024-01-30T11:06:59.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p1-discharge-2024"}]',
   NULL, NULL,
   '2024-01-30T11:06:58.477+00:00',
   '["http://lakeside.example/policy/amending-notes"]',
   NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "UPDATE",
       "display": "revise"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL,
   '[{"type": [{"system": "urn:iso-astm:E1762-95:2013", "code": "1.2.840.10065.1.12.1.1",
        "display": "Author''s Signature"}],
      "when": "2024-01-30T11:06:58.477+00:00",
      "who": {"reference": "Practitioner/dr-sato", "display": "Dr. Keiko Sato"}}]'),
  ('prov-p1-consult', 1, '2025-05-20T17:45:37.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p1-consult-2025"}]',
   NULL, NULL,
   '2025-05-20T17:45:36.818+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"},
      "onBehalfOf": {"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  ('prov-p2-pathology', 1, '2023-06-15T14:02:30.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p2-pathology-2023"}]',
   NULL, NULL,
   '2023-06-15T14:02:29.945+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"},
      "onBehalfOf": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   NULL, NULL),
  ('prov-p5-directive', 1, '2024-09-05T16:12:08.640+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p5-directive-2024"}]',
   NULL, NULL,
   '2024-09-05T16:12:08.600+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   '[{"role": "source", "what": {"display": "Scan of the signed form, SCAN-2024-002216"}}]',
   NULL),
  ('prov-p9-labs', 1, '2025-03-05T15:44:30.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p9-lab-2025-03"}]',
   NULL, NULL,
   '2025-03-05T15:44:29.871+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "CREATE",
       "display": "create"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"},
      "onBehalfOf": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"},
      "onBehalfOf": {"reference": "Organization/org-meridian", "display": "Meridian Reference Laboratory"}}]',
   NULL, NULL),
  -- Two targets: the document, and the one that replaces it.
  ('prov-p12-knee', 1, '2023-05-19T09:30:13.000+00:00',
   '{"profile": ["http://hl7.org/fhir/us/core/StructureDefinition/us-core-provenance"]}',
   '[{"reference": "DocumentReference/doc-p12-discharge-2023"},
     {"reference": "DocumentReference/doc-p12-discharge-2023-corrected"}]',
   NULL, NULL,
   '2023-05-19T09:30:12.602+00:00',
   NULL, NULL,
   '{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-DataOperation", "code": "UPDATE",
       "display": "revise"}]}',
   '[{"type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
         "code": "author", "display": "Author"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}},
     {"type": {"coding": [{"system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type",
         "code": "transmitter", "display": "Transmitter"}]},
      "who": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"},
      "onBehalfOf": {"reference": "Organization/org-lakeside", "display": "Lakeside General Hospital"}}]',
   '[{"role": "revision", "what": {"reference": "DocumentReference/doc-p12-discharge-2023"}}]',
   NULL);


-- ==== Group =================================================================
-- Patients who are taken together: who may be exported by one address, Group/<id>/$export.

INSERT INTO fhir_group (
  id, version_id, last_updated, meta, identifier, active, type, actual, code, name, quantity, managing_entity,
  characteristic, member
) VALUES
  -- Three members; the time of one is over, and one is inactive.
  ('grp-allergy-clinic', 1, '2024-06-03T08:00:00.000+00:00',
   '{"source": "http://lakeside.example/fhir/rosters",
     "security": [{"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "N"}],
     "tag": [{"system": "http://lakeside.example/fhir/tags", "code": "roster"}]}',
   '[{"system": "http://lakeside.example/fhir/group", "value": "ALLERGY-CLINIC"}]',
   TRUE, 'person', TRUE,
   '{"coding": [{"system": "http://lakeside.example/fhir/group-kind", "code": "roster", "display": "Roster"}]}',
   'Patients of the allergy clinic', 5,
   '{"reference": "Organization/org-harbor", "display": "Harbor Allergy and Asthma Center"}',
   NULL,
   '[{"entity": {"reference": "Patient/p1"}, "period": {"start": "2023-02-14"}},
     {"entity": {"reference": "Patient/p2"}},
     {"entity": {"reference": "Patient/p8"}, "inactive": false},
     {"entity": {"reference": "Patient/p3"}, "period": {"start": "2022-01-10", "end": "2023-12-31"}},
     {"entity": {"reference": "Patient/p6"}, "inactive": true}]'),
  -- Told by what its members have in common, who are not listed.
  ('grp-newborns', 1, '2025-02-01T08:00:00.000+00:00',
   NULL, NULL, TRUE, 'person', FALSE, NULL, 'Newborns', NULL, NULL,
   '[{"code": {"coding": [{"system": "http://loinc.org", "code": "76689-9", "display": "Sex assigned at birth"}]},
      "valueCodeableConcept": {"coding": [{"system": "http://hl7.org/fhir/administrative-gender",
        "code": "female"}]},
      "exclude": false},
     {"code": {"text": "Born elsewhere"}, "valueBoolean": true, "exclude": true}]',
   NULL);

--- A value set of the clinic's own, to search reactions by.

INSERT INTO value_set (
  id, version_id, last_updated, url, version, name, title, status, date, publisher, description, compose
) VALUES
  ('severe-reactions', 1, '2024-01-08T08:00:00.000+00:00',
   'http://lakeside.example/fhir/ValueSet/severe-reactions', '1', 'SevereReactions', 'Severe reactions', 'active',
   '2024-01-08', 'Lakeside Clinic', 'Reactions of the airway and the whole body, for the emergency department.',
   '{"include": [{"system": "http://snomed.info/sct", "concept": [
      {"code": "39579001", "display": "Anaphylaxis"}, {"code": "41291007", "display": "Angioedema"},
      {"code": "4386001", "display": "Bronchospasm"}, {"code": "51599000", "display": "Edema of larynx"},
      {"code": "2129002", "display": "Edema of pharynx"},
      {"code": "73442001", "display": "Stevens-Johnson syndrome"}]}]}');

// SMART's fhirclient, in an app on a server.
import FHIR from "fhirclient";
import { codes, fhir, patient, run, signedToken, token, url } from "./run.mjs";

/** Returns a client as it is after the app's launch. */
const launched = (tokenResponse) =>
  FHIR({ session: {} }, {}).client({ serverUrl: fhir, tokenResponse });

const smart = launched({ access_token: token });
const patients = launched({ access_token: patient.token, patient: patient.id });
const allergy = "AllergyIntolerance/al-p1-penicillin";

/** Returns the status and the issues of an error; the client keeps the outcome in its message. */
const outcome = (error) => {
  const body = error.message.slice(error.message.indexOf("{"), error.message.lastIndexOf("}") + 1);
  return [error.status, codes(JSON.parse(body))];
};

async function aborted() {
  const control = new FHIR.AbortController();
  const asked = smart.request({ url: "AllergyIntolerance", signal: control.signal });
  control.abort();
  return asked.catch((error) => error.name);
}

async function attachment() {
  const { content } = await smart.request("DocumentReference/doc-p1-progress-2023");
  const { url: at, contentType, data } = content[0].attachment;
  const text = await smart.request({ url: at, headers: { accept: contentType } });
  return text === Buffer.from(data, "base64").toString();
}

const rows = [
  ["the version of FHIR", () => smart.getFhirVersion(), "4.0.1"],
  [
    "as many pages as are wanted",
    () =>
      smart
        .request("DocumentReference?patient=p1&_count=2", { pageLimit: 2 })
        .then((pages) => pages.map((page) => page.entry.length)),
    [2, 2],
  ],
  [
    "what is referenced, in its place",
    () =>
      smart
        .request(allergy, { resolveReferences: ["patient", "recorder", "encounter"] })
        .then((one) => [one.patient, one.recorder, one.encounter].map((at) => at.resourceType)),
    ["Patient", "Practitioner", "Encounter"],
  ],
  [
    "what is referenced, beside the resources of all pages",
    () =>
      smart
        .request("AllergyIntolerance?patient=p1&_count=2", {
          resolveReferences: ["patient"],
          graph: false,
          pageLimit: 0,
        })
        .then(({ data, references }) => [data.length, Object.keys(references)]),
    [3, ["Patient/p1"]],
  ],
  [
    "a resource with its headers",
    () =>
      smart
        .request({ url: allergy, includeResponse: true })
        .then(({ body, response }) => [body.id, response.headers.get("etag")]),
    ["al-p1-penicillin", 'W/"1"'],
  ],
  ["an aborted request", aborted, "AbortError"],
  ["the text of a document", attachment, true],
  ["its patient", () => patients.patient.read().then((one) => one.id), "p1"],
  [
    "its patient's, by the parameter that the CapabilityStatement has",
    () => patients.patient.request("AllergyIntolerance").then((bundle) => bundle.total),
    6,
  ],
  [
    "its patient's, unasked",
    () => patients.request("AllergyIntolerance").then((bundle) => bundle.total),
    6,
  ],
  [
    "another patient's",
    () => patients.request("AllergyIntolerance?patient=p2").catch(outcome),
    [403, ["forbidden"]],
  ],
  [
    "a resource of another patient",
    () => patients.request("AllergyIntolerance/al-p2-morphine").catch(outcome),
    [404, ["not-found"]],
  ],
  [
    "a bad value",
    () => smart.request("AllergyIntolerance?date=nonsense").catch(outcome),
    [400, ["value"]],
  ],
  [
    "a token that is none",
    () => launched({ access_token: "nonsense" }).request(allergy).catch(outcome),
    [401, ["login"]],
  ],
  [
    "a resource, with a token for an assertion",
    () =>
      signedToken(`${url}/oauth/token`)
        .then((answer) => launched(answer).request(allergy))
        .then((one) => one.id),
    "al-p1-penicillin",
  ],
];

await run(rows, (type, query) =>
  smart.request(`${type}?${query}`, { flat: true, pageLimit: 0 }),
);

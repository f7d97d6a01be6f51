// A SMART App Launch 2.2 app with SMART's own client, fhirclient: it connects by itself, or is
// launched by the clinic's pages for a patient, and shows that patient's allergies and notes.
"use strict";

const SERVER = `${location.origin}/fhir`;
const SCOPE = "openid fhirUser launch/patient patient/*.rs";
// Some entries are no allergies: somebody asked, and there was none. They are coded in SNOMED CT.
const NONE_KNOWN = { 716186003: "No known allergies", 409137002: "No known drug allergies",
  429625007: "No known food allergies", 428607008: "No known environmental allergies" };
const WRONG = "entered-in-error";
const element = (id) => document.getElementById(id);
const tell = (error) => { element("message").textContent = error.message; };
const text = (concept) => concept?.text || concept?.coding?.[0]?.display || concept?.coding?.[0]?.code || "not named";
// A status may be coded in other words beside FHIR's.
const code = ({ coding = [] } = {}) =>
  (coding.find((one) => one.system?.startsWith("http://terminology.hl7.org/CodeSystem/")) ?? coding[0])?.code;

// Send the browser to the server: there the user signs in, chooses a patient, and allows or not.
const connect = (scope, more) =>
  FHIR.oauth2.authorize({ clientId: "demo-app", redirectUri: location.pathname, scope, ...more }).catch(tell);

// Back again, with a code: fhirclient has redeemed it for a token, and the client reads with that.
async function show(client) {
  if (!client.patient.id) throw new Error("No patient was chosen, so there is nothing to show.");
  const { name: [name = {}] = [], birthDate } = await client.patient.read();
  element("name").textContent = name.text ?? [...(name.given ?? []), name.family].join(" ");
  element("born").textContent = `born ${birthDate ?? "on a day that is not known"}`;
  await list(client, "allergies", "AllergyIntolerance", "", (one) => [
    one.code?.coding?.map((coding) => NONE_KNOWN[coding.code]).find(Boolean) ?? text(one.code),
    one.criticality === "high" && "high criticality", code(one.verificationStatus), code(one.clinicalStatus)]);
  await list(client, "notes", "DocumentReference", "&_sort=-date", (one) => [
    `${one.date?.slice(0, 10) ?? ""} ${text(one.type)}`, one.status, one.docStatus]);
  const { scope, patient, expires_in } = client.state.tokenResponse;
  element("token").textContent = JSON.stringify({ scope, patient, expires_in }, null, 2);
  element("record").hidden = false;
  element("connect").textContent = "Connect again";
}

// Every match, from page to page: the first page alone would read as the whole. What was entered in
// error was never so: it is counted. Whoever reads must know what is refuted, inactive, superseded.
async function list(client, id, type, also, told) {
  const found = await client.request(`${type}?patient=${client.patient.id}${also}`, { pageLimit: 0, flat: true });
  const all = found.filter((one) => one.resourceType === type).map(told);
  const lines = all.filter(([, ...states]) => !states.includes(WRONG)).map(([name, ...states]) => {
    const unusual = states.filter((state) => state && !["confirmed", "active", "current", "final"].includes(state));
    return unusual.length ? `${name} (${unusual.join(", ")})` : name;
  });
  const wrong = all.length - lines.length;
  if (!lines.length) lines.push("Nothing is recorded.");
  if (wrong) lines.push(wrong === 1 ? "1 entry was entered in error." : `${wrong} entries were entered in error.`);
  element(id).replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
}

const given = new URLSearchParams(location.search);
element("connect").addEventListener("click", () => connect(SCOPE, { iss: SERVER }));
if (given.has("code") || given.has("error")) FHIR.oauth2.ready().then(show).catch(tell);
// A launch by anybody else's server is not answered.
else if (given.has("launch") && given.get("iss") === SERVER) connect(`launch ${SCOPE}`, {});

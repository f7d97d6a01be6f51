// A SMART App Launch 2.2 app with SMART's own client, fhirclient: it connects by itself, or is
// launched by the clinic's pages for a patient, and shows that patient's allergies and notes.
"use strict";

const SERVER = new URL("../fhir", location.href).href;
const SCOPE = "openid fhirUser launch/patient patient/Patient.rs patient/AllergyIntolerance.rs patient/DocumentReference.rs";
const element = (id) => document.getElementById(id);
const tell = (error) => { element("message").textContent = error.message; };
const make = (tag, ...content) => { const made = document.createElement(tag); made.append(...content); return made; };

// Send the browser to the server: there the user signs in, chooses a patient, and allows or not.
const connect = (scope, more) =>
  FHIR.oauth2.authorize({ clientId: "demo-app", redirectUri: location.pathname, scope, ...more }).catch(tell);

// Back again, with a code: fhirclient has redeemed it for a token, and the client reads with that.
async function show(client) {
  const { scope, patient, expires_in } = client.state.tokenResponse;
  if (!patient) throw new Error("No patient was chosen, so there is nothing to show.");
  await fill("patient", client.patient.read(), person);
  await fill("allergies", client.request(`AllergyIntolerance/$summary?patient=${patient}`), allergies);
  // Every page of the notes: the first one alone would read as the whole.
  const found = client.request(`DocumentReference?patient=${patient}&_sort=-date`, { pageLimit: 0, flat: true });
  await fill("notes", found, notes);
  element("token").textContent = JSON.stringify({ scope, patient, expires_in }, null, 2);
  element("record").hidden = false;
  element("connect").textContent = element("connect").dataset.again;
}
// What the token does not allow is not "none": say so, and show the rest.
const fill = async (id, asked, shown) => element(id).replaceChildren(...await asked.then(shown).catch(
  ({ status, message }) => [`Not shown: ${status === 403 ? "the token does not allow it." : message}`]));
const person = ({ name: [name = {}] = [], birthDate }) => [
  make("h2", name.text ?? [...(name.given ?? []), name.family].join(" ")), `born ${birthDate ?? "on an unknown day"}`];

// The server says in which order allergies matter, how severe they are, and what it means that none
// is listed. An app that works that out by itself may say something milder: this one repeats it.
const parts = (held, name) => (held.parameter ?? held.part).filter((one) => one.name === name);
const value = (one) => one && one[Object.keys(one).find((key) => key.startsWith("value"))];
const first = (held, name) => value(parts(held, name)[0]);
const allergies = (summary) => summary.parameter.flatMap((one) => one.name === "group"
  ? [make("h3", first(one, "text")), make("ul", ...parts(one, "entry").map(entry))]
  : one.valueString || one.part ? make("p", one.valueString ?? first(one, "text")) : []);
const entry = (one) => make("li",
  make("strong", (first(one, "substance") ?? "Substance not recorded").replace(/^NoInformation$/, "No information")),
  first(one, "severe") ? " (severe) " : " ", make("small", facts(one).join("; ")));
const SHOWN = ["source", "kind", "about", "substance", "severe", "text"];
// clinicalStatus reads as clinical status; a reaction has a text and parts of its own.
const facts = (one) => one.part.filter(({ name }) => !SHOWN.includes(name)).map((part) =>
  `${part.name.replace(/[A-Z]/g, " $&").toLowerCase()}: ${
    part.part ? [first(part, "text"), ...facts(part)].join(", ") : value(part)}`);
// A date is shown as it is, a time in the browser's zone, with its name. A status is never left out.
const LONG = { dateStyle: "medium", timeStyle: "long" };
const day = (date = "") => (date.includes("T") ? new Date(date).toLocaleString("en", LONG) : date);
const notes = (found) => [found.length ? "" : "Nothing is recorded.", make("ul", ...found.map((one) => make("li",
  [day(one.date), one.type?.text ?? one.type?.coding?.[0]?.display, one.status, one.docStatus].filter(Boolean).join(", "))))];

const given = new URLSearchParams(location.search);
element("connect").addEventListener("click", () => connect(SCOPE, { iss: SERVER }));
if (given.has("code") || given.has("error")) FHIR.oauth2.ready().then(show).catch(tell);
// A launch by anybody else's server is not answered.
else if (given.has("launch") && given.get("iss") === SERVER) connect(`launch ${SCOPE}`, {});

// A SMART App Launch 2.2 app with SMART's own client, fhirclient: it connects by itself, or is
// launched by the clinic's pages for a patient, and shows that patient's allergies and notes.
"use strict";
const SERVER = new URL("../fhir", location.href).href;
const SCOPE = "openid fhirUser launch/patient patient/Patient.rs patient/AllergyIntolerance.rs patient/DocumentReference.rs";
const element = (id) => document.getElementById(id);
const make = (tag, ...content) => { const made = document.createElement(tag); made.append(...content); return made; };
const words = element("record").dataset; // In the language of the page; the server's words are English.
const english = (told) => Object.assign(make("span", told.display ?? told.reference ?? told), { lang: "en" });
const tell = (error) => element("message").replaceChildren(english(error.message));
// Send the browser to the server: there the user signs in, chooses a patient, and allows or not.
const connect = (scope, more) => FHIR.oauth2.authorize({ clientId: "demo-app", redirectUri: location.pathname, scope, ...more }).catch(tell);
// Back again, with a code: fhirclient has redeemed it for a token, and the client reads with that.
async function show(client) {
  const { scope, patient, expires_in } = client.state.tokenResponse;
  if (!patient) return element("message").replaceChildren(words.noPatient);
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
  ({ status, message }) => (status === 403 ? [words.notAllowed] : [`${words.notShown} `, english(message)])));
const USES = ["official", "usual", undefined, "nickname", "temp", "anonymous", "maiden", "old"], today = new Date().toISOString(); // Of several names the current one is shown.
const rank = ({ use, period: { start = "", end = today } = {} }) => USES.indexOf(use)
  + (start > today ? 16 : USES.indexOf(use) > 5 || end < today.slice(0, end.length) ? 8 : 0);
const inWords = ({ text, given = [], family, suffix = [] } = {}) => text ?? [...given, family, ...suffix].filter(Boolean).join(" ");
const person = ({ name = [], birthDate }) => [make("h2", make("bdi", inWords(name.filter(inWords).sort((one, other) => rank(one) - rank(other))[0]))),
  birthDate ? words.born.replace("{}", birthDate) : words.birthUnknown];

// The server says in which order allergies matter, how severe they are, and what it means that none
// is listed. An app that works that out by itself may say something milder: this one repeats it.
const parts = (held, name) => (held.parameter ?? held.part).filter((one) => one.name === name);
const value = (one) => one && one[Object.keys(one).find((key) => key.startsWith("value"))];
const first = (held, name) => value(parts(held, name)[0]);
const allergies = (summary) => summary.parameter.flatMap((one) => one.name === "group"
  ? [make("h3", english(first(one, "text"))), make("ul", ...parts(one, "entry").map(entry))]
  : one.valueString || one.part ? make("p", english(one.valueString ?? first(one, "text"))) : []);
const named = (name) => (name === "NoInformation" ? words.noInformation : name ? english(name) : words.noSubstance);
const entry = (one) => make("li", make("strong", named(first(one, "substance"))),
  first(one, "severe") ? ` (${words.severe}) ` : " ", make("small", ...joined("; ", facts(one))));
const SHOWN = ["source", "kind", "about", "substance", "severe", "text"];
const facts = (one) => one.part.filter(({ name }) => !SHOWN.includes(name)).map((part) => make("span", `${words[part.name] ?? part.name}: `,
  ...(part.part ? joined(", ", [english(first(part, "text")), ...facts(part)]) : [english(value(part))])));
const joined = (by, list) => list.flatMap((one, at) => (at ? [by, one] : [one]));
// A date is shown as it is, a time in the browser's zone, with its name. A status is never left out.
const day = (date = "") => (!date.includes("T") ? date
  : new Date(date).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "long" }));
const notes = (found) => [found.length ? "" : words.nothing, make("ul", ...found.map((one) => make("li", ...joined(", ",
  [day(one.date ?? one._date?.extension.find(({ url }) => url === "urn:fhirapp:partial-date")?.valueDateTime), ...[one.type?.text ?? one.type?.coding?.[0]?.display, one.status, one.docStatus].map((it) => it && english(it))].filter(Boolean)))))];
const given = new URLSearchParams(location.search);
element("connect").addEventListener("click", () => connect(SCOPE, { iss: SERVER }));
if (given.has("code") || given.has("error")) FHIR.oauth2.ready().then(show).catch(tell);
// A launch by anybody else's server is not answered.
else if (given.has("launch") && given.get("iss") === SERVER) connect(`launch ${SCOPE}`, {});

// A SMART App Launch 2.2 app with SMART's own client, fhirclient: it connects by itself, or is
// launched by the clinic's pages for a patient, and shows that patient's allergies and notes: how,
// is in sample-record.js.
"use strict";
const SERVER = new URL("../fhir", location.href).href;
const SCOPE = "openid fhirUser launch/patient patient/Patient.rs patient/AllergyIntolerance.rs patient/DocumentReference.rs";
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
const given = new URLSearchParams(location.search);
element("connect").addEventListener("click", () => connect(SCOPE, { iss: SERVER }));
if (given.has("code") || given.has("error")) FHIR.oauth2.ready().then(show).catch(tell);
// A launch by anybody else's server is not answered.
else if (given.has("launch") && given.get("iss") === SERVER) connect(`launch ${SCOPE}`, {});

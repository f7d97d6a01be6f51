// A SMART App Launch 2.2 app without a library: standalone, or launched with iss and launch.
//
//   1. discover   GET <iss>/.well-known/smart-configuration
//   2. authorize  send the browser to authorization_endpoint, with PKCE (S256)
//   3. redeem     POST the code that comes back to token_endpoint
//   4. read       GET <iss>/Patient/<id>, and search with the token
"use strict";

const CLIENT_ID = "demo-app";
const SCOPE = "openid fhirUser launch/patient patient/*.rs";
const here = location.origin + location.pathname;
const element = (id) => document.getElementById(id);

async function connect(iss, launch) {
  const known = await json(`${iss}/.well-known/smart-configuration`);
  const verifier = random();
  const state = random();
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  sessionStorage.setItem(state, JSON.stringify({ iss, verifier, token_endpoint: known.token_endpoint }));
  const asked = new URLSearchParams({
    response_type: "code",
    client_id: CLIENT_ID,
    redirect_uri: here,
    scope: launch ? `launch ${SCOPE}` : SCOPE,
    state,
    aud: iss,
    code_challenge: base64url(hash),
    code_challenge_method: "S256",
  });
  if (launch) asked.set("launch", launch);
  location.assign(`${known.authorization_endpoint}?${asked}`);
}

async function redeem(code, state) {
  const begun = JSON.parse(sessionStorage.getItem(state) || "null");
  sessionStorage.removeItem(state);
  // Somebody else's answer would show somebody else's record.
  if (!begun) throw new Error("This answer belongs to no request of this browser. Connect again.");
  const token = await json(begun.token_endpoint, {
    method: "POST",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: here,
      client_id: CLIENT_ID,
      code_verifier: begun.verifier,
    }),
  });
  await show(begun.iss, token);
}

async function show(iss, token) {
  const read = (path) => json(`${iss}/${path}`, { headers: { Authorization: `Bearer ${token.access_token}` } });
  if (!token.patient) throw new Error("No patient was chosen, so there is nothing to show.");
  const patient = await read(`Patient/${token.patient}`);
  const name = patient.name[0];
  element("name").textContent = [...(name.given || []), name.family].join(" ");
  element("born").textContent = `born ${patient.birthDate || "on a day that is not known"}`;
  list("allergies", await read(`AllergyIntolerance?patient=${token.patient}`), (one) => text(one.code));
  list("notes", await read(`DocumentReference?patient=${token.patient}&_sort=-date`), (one) =>
    `${(one.date || "").slice(0, 10)} ${text(one.type)}`);
  element("token").textContent = JSON.stringify(
    { scope: token.scope, patient: token.patient, expires_in: token.expires_in }, null, 2);
  element("record").hidden = false;
  element("connect").textContent = "Connect again";
}

function list(id, bundle, tell) {
  const found = (bundle.entry || []).map((entry) => entry.resource)
    .filter((one) => one.resourceType !== "OperationOutcome");
  element(id).replaceChildren(...(found.length ? found.map(tell) : ["None is recorded."]).map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
}

function text(concept) {
  const coding = (concept && concept.coding && concept.coding[0]) || {};
  return (concept && concept.text) || coding.display || coding.code || "not named";
}

async function json(url, options) {
  const response = await fetch(url, options);
  const content = await response.json();
  if (!response.ok) throw new Error(content.error_description || (content.issue && content.issue[0].diagnostics) || response.statusText);
  return content;
}

function random() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes) {
  const text = String.fromCharCode(...new Uint8Array(bytes));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function tell(error) {
  element("message").textContent = error.message;
}

const given = new URLSearchParams(location.search);
// What came in the address serves once: a reload starts anew.
history.replaceState(null, "", here);
element("connect").addEventListener("click", () => connect(`${location.origin}/fhir`).catch(tell));
if (given.has("code")) redeem(given.get("code"), given.get("state")).catch(tell);
else if (given.has("error")) tell(new Error(given.get("error_description") || given.get("error")));
else if (given.has("launch") && given.get("iss") === `${location.origin}/fhir`) connect(given.get("iss"), given.get("launch")).catch(tell);

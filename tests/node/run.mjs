// Runs the rows of a client and prints what they came to.
//
// stdin:  {"url", "token", "patient": {"id", "token"}, "key", "searches": [[type, query], …]}
// stdout: {"rows": [[title, told, expected], …], "found": [ids of each search, …]}
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import security from "fhirclient/lib/security/server.js";

export const { url, token, patient, key, searches } = JSON.parse(readFileSync(0));
export const fhir = `${url}/fhir`;

/** Asks everything; search takes a type and a query and gives the resources of all pages. */
export async function run(rows, search) {
  const told = [];
  for (const [title, question, expected] of rows) {
    told.push([title, await settled(question), expected]);
  }
  const found = [];
  for (const [type, query] of searches) {
    const resources = await settled(() => search(type, query));
    found.push(Array.isArray(resources) ? resources.map((one) => one.id) : resources);
  }
  console.log(JSON.stringify({ rows: told, found }));
}

async function settled(question) {
  try {
    return await question();
  } catch (error) {
    return `failed: ${error.stack}`;
  }
}

/** Returns what the token endpoint answers to an assertion that the demo's client signed. */
export async function signedToken(tokenUrl) {
  const claims = {
    iss: "demo-backend",
    sub: "demo-backend",
    aud: tokenUrl,
    jti: randomUUID(),
    exp: Math.floor(Date.now() / 1000) + 60,
  };
  const signer = await security.importJWK(key);
  const header = { typ: "JWT", kid: key.kid };
  const form = {
    grant_type: "client_credentials",
    scope: "system/*.rs",
    client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    client_assertion: await security.signCompactJws(key.alg, signer, header, claims),
  };
  const answer = await fetch(tokenUrl, { method: "POST", body: new URLSearchParams(form) });
  return answer.json();
}

export const codes = (outcome) => outcome.issue.map((issue) => issue.code);

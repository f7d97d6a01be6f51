// openid-client, which checks all that it is told: discovery, the id token and its signature.
//
// stdin:  {"url", "client": {"client_id", "secret", "key"}, "scope", "redirect_uri", "begun", "at"}
//   begun and at: what it printed as it began, and where the user's browser came back to;
//   a backend has no redirect_uri, and does it all at once
// stdout: {"address", "begun"}, then {"answer", "claims", "refreshed", "before", "after"}
//   before and after: what the token is said to be, until it is revoked and from then on
import { readFileSync } from "node:fs";
import * as openid from "openid-client";

const given = JSON.parse(readFileSync(0));
const { url, client, redirect_uri, scope, begun, at } = given;

const SIGNERS = {
  RS384: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-384" },
  ES384: { name: "ECDSA", namedCurve: "P-384" },
};

async function proof() {
  if (client.secret) return openid.ClientSecretBasic(client.secret);
  if (!client.key) return openid.None();
  const { alg, kid } = client.key;
  const key = await crypto.subtle.importKey("jwk", client.key, SIGNERS[alg], false, ["sign"]);
  // SMART: aud is the token endpoint; this client would name the issuer.
  const modify = (_header, claims) => {
    claims.aud = `${url}/oauth/token`;
  };
  return openid.PrivateKeyJwt({ key, kid }, { [openid.modifyAssertion]: modify });
}

const server = await openid.discovery(
  new URL(url),
  client.client_id,
  undefined,
  await proof(),
  {
    // A backend knows OAuth (RFC 8414), an app OpenID Connect too.
    algorithm: redirect_uri ? "oidc" : "oauth2",
    execute: [openid.allowInsecureRequests, openid.enableNonRepudiationChecks],
  },
);

async function begin() {
  const begun = {
    pkceCodeVerifier: openid.randomPKCECodeVerifier(),
    expectedNonce: openid.randomNonce(),
    expectedState: openid.randomState(),
  };
  const address = openid.buildAuthorizationUrl(server, {
    redirect_uri,
    scope,
    aud: `${url}/fhir`,
    code_challenge: await openid.calculatePKCECodeChallenge(begun.pkceCodeVerifier),
    code_challenge_method: "S256",
    nonce: begun.expectedNonce,
    state: begun.expectedState,
  });
  return { address: address.href, begun };
}

async function end(answer) {
  const { refresh_token } = answer;
  const refreshed = refresh_token && (await openid.refreshTokenGrant(server, refresh_token));
  const last = refreshed || answer;
  // Whoever cannot prove who they are may not ask.
  const ask = async () =>
    client.secret || client.key
      ? openid.tokenIntrospection(server, last.access_token)
      : undefined;
  const before = await ask();
  const claims = answer.claims();
  const known = claims && (await openid.fetchUserInfo(server, last.access_token, claims.sub));
  await openid.tokenRevocation(server, last.refresh_token ?? last.access_token);
  const after = await ask();
  return { answer, claims, known, refreshed, before, after };
}

async function run() {
  if (!redirect_uri) return end(await openid.clientCredentialsGrant(server, { scope }));
  if (!at) return begin();
  return end(await openid.authorizationCodeGrant(server, new URL(at), begun));
}

console.log(JSON.stringify(await run()));

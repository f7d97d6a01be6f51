// An OpenID provider that nobody here wrote (oidc-provider, certified), for sign-in by a clinic's own.
//
//   node oidc-provider.mjs '{"client": …, "secret": …, "redirect": …, "left": …, "accounts": {…}}'
//
// It prints its issuer when it is ready. Whoever types a name of accounts, with any password, is that
// account; a line on stdin is the accounts anew.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Provider } from "oidc-provider";

const given = JSON.parse(process.argv[2]);
let accounts = given.accounts;
const server = createServer();
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: given.client,
      client_secret: given.secret,
      redirect_uris: [given.redirect],
      post_logout_redirect_uris: [given.left],
    },
  ],
  claims: {
    openid: ["sub"],
    profile: ["name", "preferred_username", "groups", "realm_access"],
    email: ["email"],
  },
  cookies: { keys: ["of the tests"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...(accounts[id] ?? {}) }) }),
  pkce: { required: () => true },
});
server.on("request", provider.callback());
createInterface({ input: process.stdin }).on("line", (line) => {
  accounts = JSON.parse(line);
  console.log("changed");
});
console.log(issuer);

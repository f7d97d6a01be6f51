// Swagger UI on our description of the API, signed in by the authorization code with PKCE.
"use strict";

const place = document.getElementById("api");
const { description, client, audience, redirect, scope, backend, secret, authorize, close, media } = place.dataset;
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
colour();
dark.addEventListener("change", colour);

// Each form of Authorize is filled in for its grant. In the demo that of a client without a user is
// first, since one click is enough there.
const forms = {
  authorizationCode: { clientId: client, scopes: scope },
  clientCredentials: { clientId: backend, clientSecret: secret, scopes: backend && "system/*.rs" },
};
const isFirst = (form) => form.first().get("flow") === (backend ? "clientCredentials" : "authorizationCode");
// The description as people read it: an address once, the parameters that are used most first, each
// as one text.
const LAST = ["_id", "_count", "_sort", "_include", "_revinclude", "_summary", "_elements", "_total", "_explain"];
const FORMS = ["_format", "_pretty"];
const rank = ({ in: position, name }) => {
  if (position !== "query") return position === "path" ? -1 : 100;
  if (!name.startsWith("_")) return 0;
  return FORMS.includes(name) ? 99 : LAST.includes(name) ? 1 + LAST.indexOf(name) : 50;
};
const readable = (document) => {
  const { parameters: shared } = document.components;
  const whole = (parameter) => (parameter.$ref ? shared[parameter.$ref.split("/").pop()] : parameter);
  for (const parameter of Object.values(shared)) parameter.schema = parameter.schema.items ?? parameter.schema;
  for (const [path, operations] of Object.entries(document.paths)) {
    if (path.startsWith("/api/")) delete document.paths[path];
    for (const operation of Object.values(operations)) {
      operation.parameters?.sort((one, other) => rank(whole(one)) - rank(whole(other)));
    }
  }
  return document;
};
const reading = { statePlugins: { spec: { wrapActions: {
  updateJsonSpec: (update) => (document) => update(document?.paths ? readable(document) : document),
} } } };
const authorizing = ({ React }) => ({
  statePlugins: { auth: { wrapSelectors: {
    definitionsToAuthorize: (found) => (...sought) => found(...sought)?.sortBy((form) => !isFirst(form)),
  } } },
  wrapComponents: {
    oauth2: (Form) => (given) => {
      const getConfigs = () => ({ ...given.authSelectors.getConfigs(), ...forms[given.schema.get("flow")] });
      return React.createElement(Form, { ...given, authSelectors: { ...given.authSelectors, getConfigs } });
    },
    // There is one server to try: this one.
    ServersContainer: () => () => null,
    // Errors that operations share are not listed with each of them.
    response: (Response) => (given) =>
      given.specSelectors.specJson().getIn([...given.specPath, "$ref"]) ? null : React.createElement(Response, given),
  },
});

const ui = SwaggerUIBundle({
  url: description,
  domNode: place,
  oauth2RedirectUrl: redirect,
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  plugins: [reading, authorizing],
  // The description is not sent to anybody who would check it.
  validatorUrl: null,
  // Swagger UI adds to every address of OAuth's what only the first takes.
  requestInterceptor: (request) => {
    const [address, query] = request.url.split("?");
    return address.endsWith("/oauth/token") && query ? Object.assign(request, { url: address }) : request;
  },
});

// What Swagger UI draws anew leaves some of it without a name, or out of the keyboard's reach.
const unnamed = "select:not([aria-label]), .parameters input:not([aria-label]), .parameters textarea:not([aria-label])";
const boxes = ".microlight:not([tabindex]), .highlight-code pre:not([tabindex]), .responses-inner:not([tabindex]), .table-container:not([tabindex])";
function amend() {
  for (const field of place.querySelectorAll(unnamed)) {
    const row = field.closest("tr");
    const name = row?.querySelector(".parameter__name")?.firstChild?.textContent.trim();
    field.setAttribute("aria-label", name || field.closest("label")?.textContent.trim() || field.title || media);
  }
  for (const box of place.querySelectorAll(boxes)) box.tabIndex = 0;
  for (const box of place.querySelectorAll(".modal-ux:not([role])")) {
    for (const [name, value] of [["role", "dialog"], ["aria-modal", "true"], ["aria-label", authorize]]) box.setAttribute(name, value);
    // Swagger UI begins with the first field without a value, which is of the last form.
    box.querySelector(".auth-container .authorize")?.focus();
    box.querySelector(".modal-ux-content")?.scrollTo(0, 0);
  }
  for (const button of place.querySelectorAll(".close-modal:not([aria-label])")) button.setAttribute("aria-label", close);
  // Its visible word is the button's name.
  for (const button of place.querySelectorAll(".modal-btn[aria-label]")) button.removeAttribute("aria-label");
}
new MutationObserver(amend).observe(place, { childList: true, subtree: true });

ui.initOAuth({
  usePkceWithAuthorizationCodeGrant: true,
  // SMART App Launch: the server that the token is for.
  additionalQueryStringParams: { aud: audience },
});

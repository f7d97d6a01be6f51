// Swagger UI on our description of the API, signed in by the authorization code with PKCE.
"use strict";

const place = document.getElementById("api");
const { description, client, audience, redirect, scope } = place.dataset;
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
colour();
dark.addEventListener("change", colour);

const ui = SwaggerUIBundle({
  url: description,
  domNode: place,
  oauth2RedirectUrl: redirect,
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  // There is one server to try: this one.
  plugins: [{ wrapComponents: { ServersContainer: () => () => null } }],
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
    field.setAttribute("aria-label", name || field.closest("label")?.textContent.trim() || field.title || "Media type");
  }
  for (const box of place.querySelectorAll(boxes)) box.tabIndex = 0;
  for (const box of place.querySelectorAll(".modal-ux:not([role])")) {
    for (const [name, value] of [["role", "dialog"], ["aria-modal", "true"], ["aria-label", "Authorize"]]) box.setAttribute(name, value);
  }
  for (const button of place.querySelectorAll(".close-modal:not([aria-label])")) button.setAttribute("aria-label", "Close");
  // Its visible word is the button's name.
  for (const button of place.querySelectorAll(".modal-btn[aria-label]")) button.removeAttribute("aria-label");
}
new MutationObserver(amend).observe(place, { childList: true, subtree: true });

ui.initOAuth({
  clientId: client,
  scopes: scope,
  usePkceWithAuthorizationCodeGrant: true,
  // SMART App Launch: the server that the token is for.
  additionalQueryStringParams: { aud: audience },
});

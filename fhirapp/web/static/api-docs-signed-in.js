// Where the authorization server sends the browser back to: hands the code to Swagger UI, which
// waits for it in the window that opened this one.
"use strict";

const asked = window.opener && window.opener.swaggerUIRedirectOauth2;
if (asked) {
  const told = Object.fromEntries(new URLSearchParams(location.search));
  const isValid = told.state === asked.state;
  if (told.code && isValid) {
    delete asked.state;
    asked.auth.code = told.code;
    asked.callback({ auth: asked.auth, redirectUrl: asked.redirectUrl });
  } else {
    const message = isValid ? told.error_description || told.error : document.getElementById("back").dataset.stray;
    asked.errCb({ authId: asked.auth.name, source: "auth", level: "error", message });
  }
  window.close();
}

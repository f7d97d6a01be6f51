// Enter in the address sends it, as in a browser's own; with Shift it is a new line.
"use strict";
// Only who writes in the form needs htmx: it comes with the first field that is entered.
const written = new Set();
const note = (event) => written.add(event.target);
const load = () => {
  const script = document.createElement("script");
  script.src = document.getElementById("explorer").dataset.htmx;
  script.onload = () => {
    removeEventListener("input", note);
    document.activeElement.dispatchEvent(new FocusEvent("focus"));
    // What was written before it came.
    for (const field of written) field.dispatchEvent(new Event("input", { bubbles: true }));
  };
  document.head.append(script);
};
addEventListener("input", note);
addEventListener(
  "focusin",
  () => (document.readyState === "complete" ? load() : addEventListener("load", load)),
  { once: true },
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && event.target.id === "address") {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});

// The server takes 32 kB of address and headers; the form and the address are sent together.
const MOST = 30000;
const tooLong = (form) => {
  const is = new URLSearchParams(new FormData(form)).toString().length > MOST;
  document.getElementById("too-long").hidden = !is;
  return is;
};
document.addEventListener("submit", (event) => {
  if (event.target.id === "explorer" && tooLong(event.target)) event.preventDefault();
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const form = event.target.closest("#explorer");
  if (form && tooLong(form)) event.preventDefault();
});

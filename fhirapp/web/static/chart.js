// Without scripts there is no button, and the browser's own menu prints.
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
// On paper nothing is folded.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.past:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});

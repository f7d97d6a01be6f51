// A button to copy each <pre data-copy="Copy" data-copied="Copied">; without a clipboard, none.
"use strict";
(() => {
  if (!navigator.clipboard) return;

  function offer(pre) {
    pre.dataset.offered = "1";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = pre.dataset.copy;
    // Which one is meant, for whoever does not see where it stands.
    if (pre.getAttribute("aria-label")) {
      button.setAttribute("aria-label", `${pre.dataset.copy}: ${pre.getAttribute("aria-label")}`);
    }
    const said = document.createElement("span");
    said.className = "soft";
    said.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        said.textContent = pre.dataset.copied;
      } catch {
        // The browser does not allow it: the text is marked, to be copied by hand.
        getSelection().selectAllChildren(pre);
      }
    });
    const row = document.createElement("div");
    row.className = "row copying";
    row.append(button, said);
    pre.after(row);
  }

  function offerAll() {
    document.querySelectorAll("pre[data-copy]:not([data-offered])").forEach(offer);
  }

  offerAll();
  // What htmx puts into the page.
  document.addEventListener("htmx:load", offerAll);
})();

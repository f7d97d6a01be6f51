// Give each piece of code of a lesson a button that copies it.
"use strict";

const { copy, copied, select } = document.querySelector(".lessons").dataset;
for (const shown of document.querySelectorAll(".prose pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = copy;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.querySelector("code").textContent);
      button.textContent = copied;
    } catch {
      button.textContent = select;
    }
  });
  shown.append(button);
}

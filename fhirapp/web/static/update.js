// How a page refreshes a part of itself (hx-swap="update"): only what differs is changed, so that
// the keyboard's focus, a selected text and what was unfolded stay as they are.
"use strict";
(() => {
  // A blank text says nothing, and has no place to be found again by.
  const parts = (element) =>
    [...element.childNodes].filter((node) => node.nodeType !== Node.TEXT_NODE || node.data.trim());

  // Tells parts of one kind apart: a form by its address, a row of a list by the first link in it.
  function key(node) {
    const named = "[id], a[href], form[action]";
    const one = node.matches?.("tr, li") ? node.querySelector(named) : node;
    return one?.matches?.(named) ? one.id || one.getAttribute("href") || one.getAttribute("action") : "";
  }

  const isSame = (old, fresh) => old.nodeName === fresh.nodeName && key(old) === key(fresh);

  function update(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = fresh.data;
      return;
    }
    const before = parts(old);
    for (const part of parts(fresh)) {
      const place = before.findIndex((known) => isSame(known, part));
      if (place < 0) {
        old.insertBefore(part, before[0] ?? null);
        continue;
      }
      for (const gone of before.splice(0, place)) gone.remove();
      update(before.shift(), part);
    }
    for (const gone of before) gone.remove();
    for (const { name } of [...old.attributes]) {
      // What the reader unfolded stays unfolded.
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  htmx.defineExtension("update", {
    isInlineSwap: (style) => style === "update",
    handleSwap: (style, target, fragment) => {
      if (style !== "update") return false;
      update(target, fragment.firstElementChild);
      // htmx reads its attributes again: without them it stops asking.
      return [target];
    },
  });
})();

// Sends the chosen files in pieces, since one request takes a megabyte, and then the form. What
// arrived stays when something breaks: the server is asked how much of each file it has.
"use strict";
(() => {
  const PIECE = 512 * 1024;
  const TRIES = 4;
  const form = document.getElementById("load");
  const files = document.getElementById("files");
  const folder = document.getElementById("folder");
  const button = document.getElementById("begin");
  const fault = document.getElementById("upload-fault");
  const said = document.getElementById("upload-said");
  const bar = document.getElementById("upload-bar");
  const words = form.dataset;
  let busy = false;

  // Told to the person, who may go on.
  class Halt extends Error {}

  // Not everything is sent as a folder.
  if (folder) document.getElementById("with-folder").hidden = folder.disabled = false;
  const chosen = () => [...files.files, ...(folder ? folder.files : [])];
  // Without halves of characters, which no address takes.
  const nameOf = (file) =>
    (file.webkitRelativePath || file.name).replace(/[\uD800-\uDFFF]/gu, "\uFFFD");
  const decimal = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const numeral = (number) => number.toLocaleString(document.documentElement.lang, decimal);
  const size = (bytes) =>
    bytes < 1e6 ? `${numeral(bytes / 1e3)} kB` :
    bytes < 1e9 ? `${numeral(bytes / 1e6)} MB` : `${numeral(bytes / 1e9)} GB`;
  const sum = (list) => list.reduce((total, one) => total + one, 0);
  const pause = (seconds) => new Promise((go) => setTimeout(go, seconds * 1000));
  const token = () => form.elements.form_token.value;

  async function ask(address, options) {
    for (let tried = 1; ; tried += 1) {
      try {
        const answer = await fetch(address, { redirect: "manual", ...options });
        if (answer.type === "opaqueredirect") throw new Halt(words.out);
        if (answer.status !== 503 || tried === TRIES) return answer;
      } catch (error) {
        if (error instanceof Halt) throw error;
        if (tried === TRIES) throw new Halt(words.broken);
      }
      await pause(tried);
    }
  }

  // Of somebody who signed in again the form's token is another one.
  async function renew() {
    const answer = await ask(location.pathname);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.querySelector("#load [name=form_token]");
    if (!found || found.value === token()) return false;
    for (const one of document.getElementsByName("form_token")) one.value = found.value;
    return true;
  }

  // How much is here of each file, by its number.
  async function known() {
    const answer = await ask(words.upload);
    if (!answer.ok) throw new Halt(words.failed);
    return (await answer.json()).files;
  }

  function show(done, total, count, of) {
    bar.hidden = false;
    bar.firstElementChild.value = total ? done / total : 1;
    said.textContent = `${size(done)} ${words.of} ${size(total)}, ${count} ${words.of} ${of} ${words.files}`;
  }

  async function content(file, at) {
    try {
      return await file.slice(at, at + PIECE).arrayBuffer();
    } catch {
      throw new Halt(words.changed);
    }
  }

  async function send(one, left) {
    const query = () => `name=${encodeURIComponent(one.name)}&size=${one.file.size}&at=${one.have}&left=${left()}`;
    let strayed = 0;
    let first = !one.here;
    while (first || one.have < one.file.size) {
      const answer = await ask(`${words.upload}/${one.number}?${query()}`, {
        method: "POST",
        headers: { "X-Form-Token": token(), "Content-Type": "application/octet-stream" },
        body: await content(one.file, one.have),
      });
      first = false;
      if (answer.ok || answer.status === 409) {
        one.have = (await answer.json()).have;
        if (!answer.ok) {
          strayed += 1;
          if (strayed > 20) throw new Halt(words.failed);
          await pause(0.2);
        }
      } else if (answer.status === 400 && (await renew())) {
        first = !one.here;
      } else if (answer.status === 422 || answer.status === 410) {
        throw new Halt((await answer.json()).said);
      } else {
        throw new Halt(words.failed);
      }
      left.show();
    }
  }

  async function upload(list) {
    const here = await known();
    let next = here.length ? Math.max(...here.map((one) => one.number)) + 1 : 0;
    const all = list.map((file) => {
      const name = nameOf(file);
      const at = here.findIndex((one) => one.name === name && one.size === file.size);
      const [found] = at < 0 ? [] : here.splice(at, 1);
      return { file, name, number: found ? found.number : next++, have: found ? found.have : 0, here: Boolean(found) };
    });
    const total = sum(all.map((one) => one.file.size));
    const left = () => total - sum(all.map((one) => one.have));
    let count = 0;
    left.show = () => show(total - left(), total, count, all.length);
    for (const one of all) {
      await send(one, left);
      count += 1;
      left.show();
    }
    if (!all.length) return;
    // The server compares it with what it has.
    const stored = [...here.map((one) => one.size), ...all.map((one) => one.file.size)];
    form.elements.uploaded.value = `${stored.length}:${sum(stored)}`;
    // It may have taken longer than the session.
    await renew();
  }

  function choose() {
    const list = chosen();
    const tooMany = list.length > Number(words.most);
    fault.hidden = !tooMany;
    fault.textContent = tooMany ? words.many : "";
    bar.hidden = true;
    said.textContent = list.length
      ? `${words.chosen} ${list.length} ${list.length === 1 ? words.file : words.files}, ${size(sum(list.map((one) => one.size)))}`
      : "";
  }

  async function begin(event) {
    const list = chosen();
    if (busy) event.preventDefault();
    if (busy || !list.length) return;
    event.preventDefault();
    if (list.length > Number(words.most)) return;
    busy = button.disabled = true;
    fault.hidden = true;
    try {
      await upload(list);
      // They are there already.
      files.disabled = true;
      if (folder) folder.disabled = true;
      form.submit();
    } catch (error) {
      fault.textContent = error instanceof Halt ? error.message : words.failed;
      fault.hidden = false;
      fault.scrollIntoView({ block: "nearest" });
      busy = button.disabled = false;
    }
  }

  files.addEventListener("change", choose);
  if (folder) folder.addEventListener("change", choose);
  form.addEventListener("submit", begin);
  // A page that the browser kept, and shows again.
  addEventListener("pageshow", () => {
    busy = button.disabled = files.disabled = false;
    if (folder) folder.disabled = false;
  });
})();

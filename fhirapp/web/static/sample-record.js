// What the sample app shows of a record: a person, allergies as the server judges them, and notes.
"use strict";
const element = (id) => document.getElementById(id);
const make = (tag, ...content) => { const made = document.createElement(tag); made.append(...content); return made; };
const marked = (className, tag, ...content) => Object.assign(make(tag, ...content), { className });
const words = element("record").dataset; // In the language of the page; the server's words are English.
const english = (told) => Object.assign(make("span", told.display ?? told.reference ?? told), { lang: "en" });
const joined = (by, list) => list.flatMap((one, at) => (at ? [by, one] : [one]));

const USES = ["official", "usual", undefined, "nickname", "temp", "anonymous", "maiden", "old"], today = new Date().toISOString(); // Of several names the current one is shown.
const rank = ({ use, period: { start = "", end = today } = {} }) => USES.indexOf(use)
  + (start > today ? 16 : USES.indexOf(use) > 5 || end < today.slice(0, end.length) ? 8 : 0);
const inWords = ({ text, given = [], family, suffix = [] } = {}) => text ?? [...given, family, ...suffix].filter(Boolean).join(" ");
const person = ({ name = [], birthDate }) => [make("h2", make("bdi", inWords(name.filter(inWords).sort((one, other) => rank(one) - rank(other))[0]))),
  birthDate ? words.born.replace("{}", birthDate) : words.birthUnknown];

// The server says in which order allergies matter, how severe they are, and what it means that none
// is listed. An app that works that out by itself may say something milder: this one repeats it.
const parts = (held, name) => (held.parameter ?? held.part).filter((one) => one.name === name);
const value = (one) => one && one[Object.keys(one).find((key) => key.startsWith("value"))];
const first = (held, name) => value(parts(held, name)[0]);
const allergies = (summary) => {
  const groups = parts(summary, "group");
  const severe = groups.filter((group) => !isOver(group)).flatMap((group) => parts(group, "entry")).filter((one) => first(one, "severe"));
  const alert = severe.length ? [marked("danger", "div", make("ul", ...severe.map(warning)))] : [];
  return [...alert, ...summary.parameter.flatMap(sentence), ...groups.map(section)];
};
// What is over, or never was, is below the alert and folded, as in the chart.
const isOver = (group) => ["past", "refuted", "entered-in-error"].includes(first(group, "code"));
const warning = (one) => {
  const title = first(one, "severeBy") === "criticality" ? words.criticalityTitle : words.severeTitle;
  const worst = first(one, "worstReaction");
  return make("li", marked("headline", "p", `${title}: `, named(one), ...(worst ? [" (", english(worst), ")"] : [])));
};
const sentence = (one) => {
  if (one.name === "group" || !(one.valueString || one.part)) return [];
  const text = english(one.valueString ?? first(one, "text"));
  const isAbsence = one.name === "conclusion" && first(one, "code") !== "allergies";
  return [isAbsence ? marked("none open", "p", make("strong", text)) : make("p", text)];
};
// A column for each kind of fact. The first has what is in no other: nothing that the server says is left out.
const TITLES = ["substanceTitle", "reactionTitle", "statusTitle", "datesTitle"];
const COLUMNS = [[], ["reaction", "comment", "note"], ["clinicalStatus", "verificationStatus", "criticality"],
  ["onset", "lastOccurrence", "recorded", "recorder", "asserter"]];
const section = (group) => {
  const title = english(first(group, "text")), entries = parts(group, "entry");
  const head = make("thead", make("tr", ...TITLES.map((name) => Object.assign(make("th", words[name]), { scope: "col" }))));
  const rows = entries.map((one) => make("tr", ...TITLES.map((name, at) => cell(one, name, at, isOver(group)))));
  const table = marked("roomy brief allergies", "table", head, make("tbody", ...rows));
  if (!isOver(group)) return make("div", make("h3", title), table);
  return marked("past", "details", make("summary", make("span", title, ` ${entries.length}: `, ...joined(", ", entries.map(named)))), table);
};
const cell = (one, title, at, over) => {
  const names = at ? COLUMNS[at] : one.part.map(({ name }) => name).filter((name) => !COLUMNS.flat().includes(name));
  const told = make("small", ...joined("; ", facts(one, names)));
  const severe = first(one, "severe") ? [" ", marked(over ? "tag" : "tag risk", "span", words.severe)] : [];
  const made = at ? make("td", told) : Object.assign(make("th", make("strong", named(one)), ...severe, make("br"), told), { scope: "row" });
  made.dataset.label = words[title];
  return made;
};
const named = (one) => {
  const name = first(one, "substance");
  return name === "NoInformation" ? words.noInformation : name ? english(name) : words.noSubstance;
};
const HIDDEN = ["source", "kind", "about", "substance", "severe", "text", "severeBy", "whySevere", "worstReaction"];
const facts = (one, names) => one.part.filter(({ name }) => names.includes(name) && !HIDDEN.includes(name)).map(fact);
const fact = (part) => make("span", `${words[part.name] ?? part.name}: `, ...(part.part
  ? joined(", ", [english(first(part, "text")), ...facts(part, part.part.map(({ name }) => name))])
  : [english(value(part))]));

// A date is shown as it is, a time in the browser's zone, with its name. A status is never left out.
const day = (date = "") => (!date.includes("T") ? date
  : new Date(date).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "long" }));
const notes = (found) => [found.length ? "" : words.nothing, make("ul", ...found.map((one) => make("li", ...joined(", ",
  [day(one.date ?? one._date?.extension.find(({ url }) => url === "urn:fhirapp:partial-date")?.valueDateTime), ...[one.type?.text ?? one.type?.coding?.[0]?.display, one.status, one.docStatus].map((it) => it && english(it))].filter(Boolean)))))];

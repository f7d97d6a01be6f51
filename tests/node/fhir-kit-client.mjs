// fhir-kit-client.
import { isDeepStrictEqual } from "node:util";
import { CapabilityTool, Client } from "fhir-kit-client";
import { codes, fhir, run, signedToken, token, url } from "./run.mjs";

const kit = new Client({ baseUrl: fhir, bearerToken: token });
const resourceType = "AllergyIntolerance";
const allergy = { resourceType, id: "al-p1-penicillin" };
const ofPatient = { patient: "p1", _count: 2 };

const header = (name) => (answer) => Client.httpFor(answer).response.headers.get(name);
const id = (resource) => resource.id;
const outcome = (error) => [error.response.status, codes(error.response.data)];
const pages = (bundle) => [bundle.total, bundle.entry.length];

/** Reads again what was read before; the client takes a 304 for an error. */
const reread = (headers) =>
  kit.read({ ...allergy, options: { headers } }).catch((error) => error.response.status);

/** Says whether the page before the second has what is on the first. */
async function thereAndBack() {
  const first = await kit.search({ resourceType, searchParams: ofPatient });
  const again = await kit.prevPage({ bundle: await kit.nextPage({ bundle: first }) });
  return isDeepStrictEqual(again.entry, first.entry);
}

const rows = [
  [
    "where users and tokens are asked for",
    () => kit.smartAuthMetadata().then((found) => [found.authorizeUrl.href, found.tokenUrl.href]),
    [`${url}/oauth/authorize`, `${url}/oauth/token`],
  ],
  [
    "what the server can",
    () =>
      kit.capabilityStatement().then((statement) => {
        const tool = new CapabilityTool(statement);
        return [
          tool.resourceCan(resourceType, "search-type"),
          tool.resourceCan(resourceType, "delete"),
          tool.resourceSearch(resourceType, "patient"),
        ];
      }),
    [true, false, true],
  ],
  ["a resource", () => kit.read(allergy).then(id), allergy.id],
  ["its version", () => kit.read(allergy).then(header("etag")), 'W/"1"'],
  ["an unchanged resource, by its tag", () => reread({ "If-None-Match": 'W/"1"' }), 304],
  ["a changed one, by its tag", () => reread({ "If-None-Match": 'W/"0"' }).then(id), allergy.id],
  [
    "an unchanged resource, by its time",
    () =>
      kit
        .read(allergy)
        .then(header("last-modified"))
        .then((time) => reread({ "If-Modified-Since": time })),
    304,
  ],
  [
    "an earlier version",
    () =>
      kit
        .vread({ resourceType, id: "al-p1-metformin", version: "1" })
        .then((one) => one.meta.versionId),
    "1",
  ],
  [
    "all versions",
    () =>
      kit
        .history({ resourceType, id: "al-p3-egg" })
        .then((bundle) => bundle.entry.map((entry) => entry.resource.meta.versionId)),
    ["3", "2", "1"],
  ],
  ["a page", () => kit.search({ resourceType, searchParams: ofPatient }).then(pages), [6, 2]],
  [
    "a page, by POST",
    () =>
      kit
        .resourceSearch({ resourceType, searchParams: ofPatient, options: { postSearch: true } })
        .then(pages),
    [6, 2],
  ],
  ["a page and the one before it", thereAndBack, true],
  ["a reference", () => kit.resolve({ reference: "Patient/p1" }).then(id), "p1"],
  ["an absolute reference", () => kit.resolve({ reference: `${fhir}/Patient/p1` }).then(id), "p1"],
  [
    "a contained reference",
    () =>
      kit
        .read({ resourceType, id: "al-p7-bee" })
        .then((context) => kit.resolve({ reference: context.recorder.reference, context }))
        .then(id),
    "camp-doctor",
  ],
  [
    "an unknown resource",
    () => kit.read({ resourceType, id: "nonsense" }).catch(outcome),
    [404, ["not-found"]],
  ],
  [
    "a bad value, by POST",
    () =>
      kit
        .search({
          resourceType,
          searchParams: { date: "nonsense" },
          options: { postSearch: true },
        })
        .catch(outcome),
    [400, ["value"]],
  ],
  [
    "a resource to be made",
    () => kit.create({ resourceType, body: { resourceType } }).catch(outcome),
    [415, ["not-supported"]],
  ],
  ["a resource to be deleted", () => kit.delete(allergy).catch(outcome), [405, ["not-supported"]]],
  [
    "a resource, with a token for an assertion",
    () =>
      signedToken(`${url}/oauth/token`)
        .then((answer) => new Client({ baseUrl: fhir, bearerToken: answer.access_token }))
        .then((client) => client.read(allergy))
        .then(id),
    allergy.id,
  ],
];

await run(rows, async (type, query) => {
  const searchParams = {};
  for (const [name, value] of new URLSearchParams(query)) {
    searchParams[name] = [...(searchParams[name] ?? []), value];
  }
  const found = [];
  let page = await kit.search({ resourceType: type, searchParams });
  for (; page; page = await kit.nextPage({ bundle: page })) {
    found.push(...(page.entry ?? []).map(({ resource }) => resource));
  }
  return found;
});

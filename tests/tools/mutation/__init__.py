"""A frozen list of mutants of fhirapp, and the checks that the tests still catch them."""

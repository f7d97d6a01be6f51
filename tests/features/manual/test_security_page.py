"""The manual's table of OWASP ASVS 5.0 names tests that exist, or says why no test is needed."""

from __future__ import annotations

import re

from fhirapp.features.manual.contents import pages
from tests import TESTS

# Shown by the manual itself.
_WITHOUT_TEST = re.compile(r"Not here|Left to you|\* above")


def test_each_row_names_existing_tests_or_says_why_there_is_none():
    table = pages()["security"].text.partition("<!-- asvs -->")[2].partition("<!-- /asvs -->")[0]
    rows = table.strip().splitlines()[2:]
    assert len(rows) > 100
    faults = []
    for row in rows:
        controls, statement, names = (cell.strip() for cell in row.strip("|").split(" | "))
        tests = re.findall(r"`([^`]+)`", names)
        for name in tests:
            path, _, function = name.partition(": ")
            file = TESTS / f"{path}.py"
            if not file.is_file() or (function and f"def test_{function}(" not in file.read_text()):
                faults.append(f"{controls}: {name} does not exist")
        if not tests and not _WITHOUT_TEST.search(statement):
            faults.append(f"{controls}: no test, and no reason")
    assert faults == []

"""What the figures of the house count, and that they can be asked for."""

from __future__ import annotations

import pytest

from tests.support.figures import files_entered, lines_of_code, size


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ('"""A module."""\n\nimport os\n', 0),
        ("# why\nx = 1\n\ny = 2  # and this\n", 2),
        ('def f():\n    """Say it.\n\n    At length.\n    """\n    return 1\n', 2),
        ('x = """not\na docstring"""\n', 2),
    ],
)
def test_code_is_neither_blank_nor_comment_docstring_or_import(text, lines):
    assert lines_of_code(text) == lines


def test_sizes_are_those_of_the_package():
    found = size()
    assert found["Python lines in fhirapp"] > 10_000
    assert 100 < found["Python files in fhirapp"] < 1_000


def test_each_call_enters_the_files_that_it_must():
    found = files_entered()
    assert "auth/oauth/server.py" in found["token"]
    assert {"rest/read.py", "auth/protector.py"} <= found["read"]
    assert {"rest/search.py", "rest/include.py"} <= found["search"]
    assert "exchange/imports/importer.py" in found["import"]
    assert "rest/search.py" not in found["import"]
    assert {"web/chart/routes.py", "rest/search.py"} <= found["chart"]

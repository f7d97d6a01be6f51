"""The figures of `tests.tools.code_size`."""

from __future__ import annotations

from threading import Thread

import pytest

from fhirapp.fhir.datatypes import bytes_of
from tests.tools.code_size import entered_by, files_entered, lines_of_code


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
def test_blank_lines_comments_docstrings_and_imports_are_not_code(text, lines):
    assert lines_of_code(text) == lines


def test_files_entered_by_a_call_are_counted_in_all_threads():
    def call() -> None:
        thread = Thread(target=bytes_of, args=("cDE=",))
        thread.start()
        thread.join()

    assert entered_by(call) == {"fhir/datatypes.py", "fhir/elements.py"}


@pytest.mark.campaign(at_full_size_only=True)
def test_files_entered_by_a_call_include_its_modules():
    entered = files_entered()
    assert "auth/oauth/server.py" in entered["token"]
    assert {"rest/read.py", "auth/protector.py"} <= entered["read"]
    assert {"rest/search.py", "rest/include.py"} <= entered["search"]
    assert "exchange/imports/importer.py" in entered["import"]
    assert "rest/search.py" not in entered["import"]
    assert {"web/chart/routes.py", "rest/search.py"} <= entered["chart"]

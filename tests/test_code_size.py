"""The figures of `tests.tools.code_size`."""

from __future__ import annotations

import pytest

from tests.tools.code_size import lines_of_code


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

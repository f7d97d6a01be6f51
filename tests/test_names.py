"""The names of public classes."""

import ast
from collections import defaultdict
from pathlib import Path

import fhirapp

_PACKAGE = Path(fhirapp.__file__).parent


def test_no_two_public_classes_have_the_same_name() -> None:
    modules = defaultdict(list)
    for path in sorted(_PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(_PACKAGE)))
    assert len(modules) > 100
    shared = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert not shared

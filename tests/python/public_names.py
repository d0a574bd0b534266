"""Prints the public classes and functions of kazoo: module, name and public methods, separated by tabs.

The sources are parsed and not imported, since the handlers need packages that may be missing.
"""

import ast
import importlib.util
import pathlib

PACKAGE = "kazoo"


def is_public(node, kinds):
    return isinstance(node, kinds) and not node.name.startswith("_")


def methods(node):
    found = node.body if isinstance(node, ast.ClassDef) else []
    return sorted({each.name for each in found if is_public(each, ast.FunctionDef)})


def main():
    root = pathlib.Path(importlib.util.find_spec(PACKAGE).origin).parent
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        if module.startswith(PACKAGE + ".tests"):
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if is_public(node, (ast.ClassDef, ast.FunctionDef)):
                print(module, node.name, " ".join(methods(node)), sep="\t")


main()

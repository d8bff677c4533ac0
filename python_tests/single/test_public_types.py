"""The types of the public names, which the package imports late, so that type checkers would not see them."""

import ast
import importlib
import pathlib

import tfcompress as tfc


def test_the_stub_has_every_public_name():
    tree = ast.parse((pathlib.Path(tfc.__file__).parent / "__init__.pyi").read_text())
    imported = {
        alias.asname: getattr(importlib.import_module(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert set(imported) == set(tfc.__all__)
    for name in set(imported) - {"DataLossError"}:  # Another class once TensorFlow is loaded.
        assert imported[name] is getattr(tfc, name)

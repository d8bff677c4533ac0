"""Extension of griffe, which reads the package for the API reference: docstrings of compiled functions.

Griffe finds their types in tfcompress/_core.pyi. Docstrings are taken from the sources in cc_ops/pybind:
building the site compiles nothing.
"""

import ast
import pathlib
import re
from typing import Any

import griffe

BINDINGS = pathlib.Path(__file__).resolve().parents[1] / "cc_ops" / "pybind"
# The name and the last argument, literals that C++ joins, as Python does.
_DEFINITION = re.compile(
    r'module\.def\(\s*"(\w+)"(?:(?!module\.def).)*?,\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)\);', re.DOTALL
)
# In tfcompress/codecs.py: a compiled function whose errors become those of the package.
_TRANSLATED = re.compile(r"errors\.translated\(\)\(_core\.(\w+)\)")


class CompiledFunctions(griffe.Extension):
    """Gives docstrings to the functions of `_core`, and makes functions of what `codecs` has made of them."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        core, codecs = pkg["_core"], pkg["codecs"]
        sources = [path.read_text() for path in sorted(BINDINGS.glob("*.cc"))]
        literals = dict(_DEFINITION.findall("".join(sources)))
        for name, function in core.functions.items():
            text = ast.literal_eval(f"({literals[name]})")
            function.docstring = griffe.Docstring(text, parent=function)
        for name, attribute in list(codecs.attributes.items()):
            if match := _TRANSLATED.fullmatch(str(attribute.value)):
                compiled = core[match[1]]
                function = griffe.Function(name, parameters=compiled.parameters, returns=compiled.returns)
                function.docstring = compiled.docstring
                codecs.set_member(name, function)

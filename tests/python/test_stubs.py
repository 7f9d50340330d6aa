"""The stubs describe the module that was built."""

import ast
import inspect
from pathlib import Path

import riesz
from riesz import _riesz

STUBS = ast.parse((Path(riesz.__file__).parent / "_riesz.pyi").read_text())


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def parameters(node):
    return [a.arg for a in node.args.args + node.args.kwonlyargs if a.arg not in ("self", "cls")]


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_every_function_is_described():
    described = functions(STUBS.body)
    nodes = [node for node in STUBS.body if isinstance(node, ast.ClassDef)]
    classes = {node.name: node for node in nodes if not node.name.startswith("_")}
    assert public(_riesz) == {*described, *classes}
    owners = [(_riesz, described)]
    for name, node in classes.items():
        owner, methods = getattr(_riesz, name), functions(node.body)
        if constructor := methods.pop("__init__", None):
            assert list(inspect.signature(owner).parameters) == parameters(constructor), name
        assert public(owner) == set(methods), name
        owners.append((owner, methods))
    for owner, nodes in owners:
        for name, node in nodes.items():
            if callable(function := getattr(owner, name)):
                found = [p for p in inspect.signature(function).parameters if p != "self"]
                assert found == parameters(node), name

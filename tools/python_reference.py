#!/usr/bin/env python3
"""Writes docs/reference/python.md from the package's docstrings: python_reference.py [--check]"""

import ast
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "crates/reef-python/python/reef"
PAGE = ROOT / "docs/reference/python.md"
HEAD = """# Python reference

The public names of the package `reef`, from its docstrings (`tools/python_reference.py`). [Python](../python.md) has examples.
"""
SPECIAL = {"__enter__", "__exit__", "__await__", "__dlpack__", "__dlpack_device__", "__array__", "__len__", "__iter__"}


def sources():
    """All definitions of the package by name, those with docstrings first."""
    found = {}
    files = sorted(PACKAGE.glob("*.py")) + sorted(PACKAGE.glob("*.pyi"))
    for file in files:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                known = found.get(node.name)
                if known is None or not ast.get_docstring(known):
                    found[node.name] = node
    return found


def exported(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    raise SystemExit("no __all__")


def parsed(name):
    """Trees of a module, that of its docstring first: a file, or a folder of files. None if there is none."""
    folder, file = PACKAGE / name, PACKAGE / f"{name}.py"
    files = [folder / "__init__.py", *sorted(folder.glob("_[a-z]*.py"))] if folder.is_dir() else [file]
    return [ast.parse(one.read_text()) for one in files] if files[0].exists() else None


def signature(node):
    arguments = ast.unparse(node.args)
    for own in ("self, ", "cls, "):
        arguments = arguments.removeprefix(own)
    arguments = "" if arguments in ("self", "cls") else arguments
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments}){returned}"


def member(node):
    """How a reader writes a member: a value has no parentheses."""
    is_value = bool(decorators(node) & {"property", "cached_property"})
    return f"{node.name}: {ast.unparse(node.returns)}" if is_value and node.returns else signature(node)


def text(node):
    """Docstring in one style of quotes: words in backticks stay, and calls in double quotes."""
    return textwrap.dedent(ast.get_docstring(node) or "").strip()


def decorators(node):
    return {ast.unparse(one).split(".")[-1] for one in node.decorator_list}


def members(node, all_nodes):
    """Public members of a class and of its private bases, in order, the class's own first."""
    seen, result = set(), []
    pending = [node]
    while pending:
        this = pending.pop(0)
        for one in this.body:
            name = getattr(one, "name", None)
            is_public = name and (not name.startswith("_") or name in SPECIAL)
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public and name not in seen:
                seen.add(name)
                result.append(one)
        bases = [ast.unparse(base).split(".")[-1] for base in this.bases]
        pending.extend(all_nodes[base] for base in bases if base.startswith("_") and base in all_nodes)
    return result


def fields(node):
    return [ast.unparse(one) for one in node.body if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_")]


def attributes(node):
    """Public attributes that the constructor sets, and values without words of their own."""
    made = [one for one in node.body if getattr(one, "name", "") == "__init__"]
    set_there = [one for each in made for one in each.body if isinstance(one, ast.AnnAssign)]
    found = [(one.target.attr, one.annotation) for one in set_there if isinstance(one.target, ast.Attribute)]
    values = [one for one in node.body if isinstance(one, ast.FunctionDef) and "property" in decorators(one)]
    found += [(one.name, one.returns) for one in values if not text(one)]
    shown = [f"{name}: {ast.unparse(kind)}" for name, kind in found if not name.startswith("_")]
    return [one.replace("_reef.", "") for one in shown]  # of the private module, by its public name


def entry(name, node, all_nodes):
    lines = []
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
        shown = [base for base in bases if not base.startswith("_")]
        lines += [f"## `{name}`", "", f"Class{' of ' + ', '.join(shown) if shown else ''}. {text(node)}".strip(), ""]
        own = fields(node) + attributes(node)
        if own:
            lines += ["Fields: " + ", ".join(f"`{field}`" for field in own) + ".", ""]
        for one in members(node, all_nodes):
            lines += [f"### `{name}.{member(one)}`", "", text(one), ""] if text(one) else []
    else:
        lines += [f"## `reef.{signature(node)}`", "", text(node), ""]
    return lines


def module(name):
    trees = parsed(name)
    definitions = [node for tree in trees for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    all_nodes = {node.name: node for node in definitions}
    lines = [f"## `reef.{name}`", "", text(trees[0]), ""]
    shown = exported(trees[0]) if len(trees) > 1 else [key for key in all_nodes if not key.startswith("_")]
    for key in shown:
        node = all_nodes[key]
        said = signature(node) if isinstance(node, ast.FunctionDef) else key
        lines += [f"### `reef.{name}.{said}`", "", text(node), ""]
        if isinstance(node, ast.ClassDef) and fields(node):
            lines += ["Fields: " + ", ".join(f"`{field}`" for field in fields(node)) + ".", ""]
        if isinstance(node, ast.ClassDef) and len(trees) > 1:
            for one in members(node, all_nodes):
                lines += [f"#### `{key}.{member(one)}`", "", text(one), ""] if text(one) else []
    return lines


def page():
    all_nodes, lines = sources(), [HEAD]
    names = exported(ast.parse((PACKAGE / "__init__.py").read_text()))
    functions = [name for name in names if isinstance(all_nodes.get(name), ast.FunctionDef)]
    errors = [name for name in names if name == "Error" or name.endswith("Error")]
    modules = [name for name in names if parsed(name)]
    classes = [name for name in names if name not in functions + errors + modules and not name.startswith("__")]
    for name in functions + classes + errors:
        if name not in all_nodes:
            raise SystemExit(f"{name}: not found")
        lines += entry(name, all_nodes[name], all_nodes)
    for name in modules:
        lines += module(name)
    # Lines of docstrings break at 100 columns; no line of a page has spaces at its end.
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()).rstrip() + "\n"


def main():
    made = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != made:
            raise SystemExit(f"{PAGE.relative_to(ROOT)} is not what tools/python_reference.py writes")
    else:
        PAGE.write_text(made)


if __name__ == "__main__":
    main()

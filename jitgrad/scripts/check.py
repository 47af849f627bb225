"""Reading a script before it runs: which names of PyTorch it uses that jitgrad does not have.

Owns: ``check_source``, ``Finding``.
Must not know: how scripts are run.

The script is parsed, not run. Names that lead from an import of torch are certain: ``torch.jit.script``, or
``nn.Linear`` after ``from torch import nn``. An attribute of anything else is a guess: PyTorch's Tensor has one of that
name and jitgrad's has not.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, NamedTuple

import jitgrad
from jitgrad.errors import closest
from jitgrad.scripts.advice import advice_on
from jitgrad.scripts.modules import has_module, our_module
from jitgrad.scripts.private_names import has_private_name
from jitgrad.scripts.tensor_names import TENSOR_NAMES

__all__ = ["Finding", "check_source"]

_BUILT_ON_TORCH = frozenset(
    "lightning lightning_fabric pytorch_lightning timm torch_scatter torch_sparse torchaudio torchvision".split()
)
_OF_OTHERS = frozenset(name for kind in (list, str, dict, set, bytes, int, float) for name in dir(kind))


class Finding(NamedTuple):
    """A name that jitgrad does not have.

    Attributes:
        line: where the script uses it, from 1.
        name: as PyTorch spells it: ``torch.jit.script``, or the class Tensor and an attribute.
        is_certain: False if something else may be meant.
        advice: what to use instead; may be empty.
    """

    line: int
    name: str
    is_certain: bool
    advice: str

    def __str__(self) -> str:
        what = "is not there"
        if not self.is_certain:
            what = "is not there, if a tensor is meant" if self.name.startswith("Tensor.") else "may not work"
        return f"{self.line}: {self.name} {what}" + (f"; {self.advice}" if self.advice else "")


def check_source(text: str, filename: str = "<script>") -> list[Finding]:
    """The names of PyTorch that a script uses and jitgrad does not have, by line.

    Raises:
        SyntaxError: the script is no Python.
    """
    tree = ast.parse(text, filename)
    reader = _NameReader(_own_names(tree))
    reader.visit(tree)
    return sorted(set(reader.findings))


def _own_names(tree: ast.AST) -> set[str]:
    """Attributes that the script makes itself: it assigns them, or defines functions of these names."""
    assigned = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    return assigned | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


class _NameReader(ast.NodeVisitor):
    """Walks over a script; ``modules`` and ``others`` are the names that its imports bind."""

    def __init__(self, own_names: set[str]) -> None:
        self.findings: list[Finding] = []
        self.modules: dict[str, str] = {}
        self.others: set[str] = set()
        self._missing = TENSOR_NAMES - set(dir(jitgrad.Tensor)) - _OF_OTHERS - own_names

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound, root = alias.asname or alias.name.split(".")[0], alias.name.split(".")[0]
            if root == "torch":
                self.modules[bound] = alias.name if alias.asname else "torch"
                self._look(node.lineno, alias.name)
            else:
                self.others.add(bound)
                self._look_at_library(node.lineno, root)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            bound = alias.asname or alias.name
            if node.level or module.split(".")[0] != "torch":
                self.others.add(bound)
            elif alias.name != "*":
                self.modules[bound] = f"{module}.{alias.name}"
                self._look(node.lineno, f"{module}.{alias.name}")
        if not node.level:
            self._look_at_library(node.lineno, module.split(".")[0])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        root, names = _chain(node)
        if isinstance(root, ast.Name) and root.id in self.modules:
            self._look(node.lineno, ".".join([self.modules[root.id], *names]))
        elif not (isinstance(root, ast.Name) and root.id in self.others):
            for name in names:
                if name in self._missing:
                    self._note(node.lineno, f"Tensor.{name}", jitgrad.Tensor, is_certain=False)
            self.visit(root)

    def _look(self, line: int, name: str) -> None:
        """``torch.a.b``: the first part that leads nowhere is noted."""
        found: Any = jitgrad
        parts = name.split(".")
        for end, part in enumerate(parts[1:], 2):
            path = ".".join(parts[:end])
            if has_module(path) and not (hasattr(found, part) and not inspect.ismodule(getattr(found, part))):
                found = our_module(path)  # a function or class hides a file of its name, as torch.tensor does
                continue
            if not hasattr(found, part):
                if has_private_name(".".join(parts[: end - 1]), part):
                    return
                if inspect.ismodule(found) or inspect.isclass(found):
                    self._note(line, path, found, is_certain=True)
                return
            found = getattr(found, part)

    def _look_at_library(self, line: int, root: str) -> None:
        if root in _BUILT_ON_TORCH:
            advice = "it is built on PyTorch itself and may not take jitgrad's tensors"
            self.findings.append(Finding(line, root, False, advice))

    def _note(self, line: int, name: str, owner: Any, is_certain: bool) -> None:
        advice = advice_on(name)
        close = "" if advice else closest(name.split(".")[-1], owner)
        if close:
            advice = f"did you mean {name.rpartition('.')[0]}.{close}?"
        self.findings.append(Finding(line, name, is_certain, advice))


def _chain(node: ast.Attribute) -> tuple[ast.expr, list[str]]:
    """``a.b.c``: (a, ["b", "c"])."""
    names: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    return at, names[::-1]


"""The shape of the source tree: layers, imports, sizes.

The layers are those of docs/architecture.md. Everything here reads source text; nothing is imported.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jitgrad"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "config", "devices", "events", "dtypes", "abi", "state", "grad_mode", "formatting", "lazy"})
    | {"layouts", "cpython", "door", "handler", "locks", "probe", "structs", "symbols", "user_line", "version_counter"}
    | {"garbage", "number_text", "numbering", "report"},
    frozenset({"array_storages", "ops", "storage_base", "tensor_base"}),
    frozenset({"tracer"}),
    frozenset({"runtime", "codegen"}),
    frozenset({"compile", "compiled", "tensor", "dispatch", "functions", "generator", "overrides", "sparse"}),
    frozenset({"nn", "optim", "autograd", "func", "legacy", "linalg", "profiler", "serialization", "testing",
     "transforms"})
    | {"checking"}
    | {"utils", "vcpu", "absent_devices", "accelerator", "amp", "backends", "cuda", "mps", "settings", "version"}
    | {"array_api", "distributions", "elementwise", "fft", "safetensors", "signal", "special", "types", "xpu"}
    | {"compiler", "cpu", "distributed", "futures", "hub", "jit", "library", "multiprocessing", "quasirandom"}
    | {"return_types", "storage"}
    | {"benchmark", "measuring", "pictures", "tune"},
    frozenset({"scripts", "__main__"}),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

DOORS = frozenset({"jitgrad.compiled.lazy_codegen", "jitgrad.codegen.llvm.binding", "jitgrad.lazy"}) | {
    "jitgrad.scripts.alias", "jitgrad.scripts.modules", "jitgrad.scripts.private_names"
}  # fmt: skip
"""The modules that import others by name; see Notes [Lazy codegen], [Lazy modules] and [Import of torch]."""

ABOVE = frozenset({"scripts", "__main__"})
"""What stands above the package itself, and may import it as users do."""

NEVER_TOGETHER = frozenset({"runtime", "codegen"})
"""Two halves of one level that meet in ``compile.py`` only."""

FORBIDDEN = frozenset({"torch", "jax", "jaxlib", "tensorflow"})
GENERATED = PACKAGE / "functions" / "_generated.py"
"""Nobody reads or edits it; ``tests/test_signatures.py`` looks whether it is up to date."""
MAX_FILE_LINES, MAX_FUNCTION_LINES = 600, 80


def _identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _unit(module: str) -> str | None:
    """``runtime`` for ``jitgrad.runtime.engine.graph.node``; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


MODULES = {_module_name(path): path for path in FILES}


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


@functools.cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that is in a file; a walk takes longer than most of what is asked of it."""
    return tuple(ast.walk(_tree(path)))


@pytest.fixture(scope="module", autouse=True)
def _trees_go() -> Iterator[None]:
    """A gigabyte, which every collection and every fork in the tests that follow would go through."""
    yield
    _tree.cache_clear()
    _nodes.cache_clear()


def _imports(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement, however deep, and what it names (``from a import b``: ``a.b`` if that is a module)."""
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_identify(path)}:{node.lineno}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node, full if full in MODULES else str(node.module)


every_file = pytest.mark.parametrize("path", FILES, ids=_identify)


def test_every_unit_has_a_layer() -> None:
    units = {_unit(module) for module in MODULES} - {None}
    assert units <= set(LEVEL), f"not in any layer: {sorted(str(u) for u in units - set(LEVEL))}"


@every_file
def test_imports_go_down(path: Path) -> None:
    own = _unit(_module_name(path))
    if own is None:
        return
    for node, target in _imports(path):
        if target.split(".")[0] != "jitgrad":
            continue
        unit = _unit(target)
        where = f"{_identify(path)}:{node.lineno} imports {target}"
        if unit is None and own in ABOVE:
            continue
        assert unit is not None, f"{where}: the package imports itself from above"
        assert LEVEL[unit] <= LEVEL[own], f"{where}: level {LEVEL[own]} imports level {LEVEL[unit]}"
        assert unit == own or not {unit, own} <= NEVER_TOGETHER, f"{where}: these two never import each other"


@every_file
def test_foreign_imports(path: Path) -> None:
    own = _unit(_module_name(path))
    for node, target in _imports(path):
        library = target.split(".")[0]
        where = f"{_identify(path)}:{node.lineno} imports {target}"
        assert library not in FORBIDDEN, where
        assert library != "numba", f"{where}: numba is imported by name, when it is used"
        assert library != "llvmlite" or own == "codegen", f"{where}: LLVM is known to codegen only"


@every_file
def test_imports_are_at_the_top(path: Path) -> None:
    top = set(_top_level(path))
    late = [node.lineno for node, _ in _imports(path) if node not in top]
    assert not late, f"{_identify(path)}: imports inside functions at lines {late}"


@every_file
def test_late_imports_have_their_doors(path: Path) -> None:
    names = {node.attr for node in _nodes(path) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in _nodes(path) if isinstance(node, ast.Name)}
    assert names.isdisjoint({"import_module", "__import__"}) or _module_name(path) in DOORS


def _top_level(path: Path) -> Iterator[ast.stmt]:
    """Statements of the module's body; those under ``if TYPE_CHECKING`` count as well."""
    for node in _tree(path).body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from node.body


def _depends_on(path: Path) -> set[str]:
    """What must be imported before the module, imports for type checkers left out."""
    at_run_time = {node for node in _tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)}
    return {target for node, target in _imports(path) if node in at_run_time and target in MODULES}


def test_no_import_cycles() -> None:
    # raises CycleError, which names the modules of the cycle
    TopologicalSorter({name: _depends_on(path) for name, path in MODULES.items()}).prepare()


def test_annotations_make_no_circle_either() -> None:
    """Of the modules, without the packages' faces: these name what is loaded late."""
    inside = {name: path for name, path in MODULES.items() if path.name != "__init__.py"}
    needs = {name: {target for _, target in _imports(path) if target in inside} for name, path in inside.items()}
    TopologicalSorter(needs).prepare()


@pytest.mark.parametrize("package", ["codegen", "compiled", "ops", "runtime", "tracer"])
def test_folders_have_no_circles(package: str) -> None:
    """The folders of a package are its stages: what one imports does not import it. The face of ``ops`` imports all."""
    stages: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        if name.split(".")[1:2] == [package] and name != "jitgrad.ops":
            folders = {_folder(target) for target in _depends_on(path)} - {_folder(name)}
            stages.setdefault(_folder(name), set()).update(f for f in folders if f.split(".")[1:2] == [package])
    TopologicalSorter(stages).prepare()


def _folder(module: str) -> str:
    return ".".join(MODULES[module].relative_to(ROOT).parent.parts)


@every_file
def test_sizes(path: Path) -> None:
    assert path == GENERATED or len(path.read_text().splitlines()) <= MAX_FILE_LINES, f"{_identify(path)} is too long"
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{_identify(path)}:{node.lineno} {node.name} has {length} lines"


NAMES_OF_TWO = {
    "Identity": "PyTorch has both: the layer nn.Identity, and the graph node torch::autograd::Identity",
    "Future": "PyTorch has both: torch.futures.Future, and c10::ivalue::Future, the result of a graph task",
    "finfo": "jitgrad.finfo, and where `import torch` means jitgrad, the one that knows dtypes that are absent",
    "autocast": "PyTorch has both: torch.amp.autocast, and torch.cuda.amp.autocast, which is derived from it",
    "GradScaler": "PyTorch has both: torch.amp.GradScaler, and torch.cuda.amp.GradScaler, which is derived from it",
    "profile": "PyTorch has both: torch.profiler.profile, and torch.autograd.profiler.profile",
    "Stream": "PyTorch has both: torch.Stream, and torch.cpu.Stream, which orders nothing",
    "Event": "PyTorch has both: torch.Event, and torch.cpu.Event, which has always passed",
    "Error": "PyTorch has both: torch.jit.Error, and the graph node torch::autograd::Error",
    "TreeSpec": "PyTorch's name of what torch.utils._pytree makes; and what transforms keep of an argument",
    "Buffer": "a tensor of a module, by PyTorch's name; and memory of a compiled program",
}


def test_no_two_classes_share_a_name() -> None:
    """One word for one thing, private classes included: a reader who greps for a class finds one."""
    where: dict[str, list[str]] = {}
    for path in FILES:
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(f"{_identify(path)}:{node.lineno}")
    assert not {name: places for name, places in where.items() if len(places) > 1 and name not in NAMES_OF_TWO}


@every_file
def test_modules_say_what_they_own(path: Path) -> None:
    assert path.read_text().strip() == "" or ast.get_docstring(_tree(path)), f"{_identify(path)} has no docstring"


def _assigned(path: Path) -> Iterator[ast.expr]:
    """What statements of the file assign to or delete, but for plain names."""
    for node in _nodes(path):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node


@every_file
def test_the_threads_slot_is_switched_in_one_place(path: Path) -> None:
    """Note [One door]: ``switch_handler`` assigns ``state.handler``, its form for hits too, and nothing else does."""
    found = [ast.unparse(target) for target in _assigned(path)]
    slot = [text for text in found if text in ("state.handler", "thread.handler", "thread['handler']")]
    owners = {"jitgrad.state": ["state.handler"], "jitgrad.tracer.hits.call_hits": ["thread['handler']"]}
    assert slot == owners.get(_module_name(path), [])


@every_file
def test_no_function_gets_other_code(path: Path) -> None:
    surgery = {"__code__", "__defaults__", "__kwdefaults__", "__globals__"}
    found = [ast.unparse(t) for t in _assigned(path) if isinstance(t, ast.Attribute) and t.attr in surgery]
    assert not found, f"{_identify(path)}: {found}"
    named = [n.value for n in _nodes(path) if isinstance(n, ast.Constant) and n.value in surgery]
    assert not named, f"{_identify(path)}: {named}"


@every_file
def test_an_error_that_is_promised_is_raised_under_python_o_too(path: Path) -> None:
    """``python -O`` leaves out ``assert``: what a docstring calls an AssertionError is raised by name."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef) and "AssertionError" in (ast.get_docstring(node) or ""):
            found = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Assert)]
            assert not found, f"{_identify(path)}: {found}"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=_identify)
def test_tests_run_without_torch(path: Path) -> None:
    """The environment of the tests has no PyTorch; what compares with it says ``pytest.importorskip("torch")``."""
    assert FORBIDDEN.isdisjoint(target.split(".")[0] for _, target in _imports(path)), _identify(path)

"""Rules that hold for the whole tree: what may import what, what is never called, sizes, layout."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = sorted((ROOT / "mcgpo_data").rglob("*.py"))
PACKAGES = sorted([*DATA, *(ROOT / "mcgpo_train").rglob("*.py")])

HEAVY = {"torch", "trl", "transformers", "peft", "accelerate", "mcgpo_train", "ray", "matplotlib", "datasets"}
TRAINING_SIDE = {"torch", "trl", "transformers", "peft", "accelerate", "vllm", "mcgpo_train"}
UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
UNSAFE_CALLS |= {"torch.load", "os.system", "os.popen", "np.load", "numpy.load", "pd.read_pickle"}
UNSAFE_WORDS = {"trust_remote_code", "allow_pickle"}  # as arguments
CORE = {
    "click": "click",
    "duckdb": "duckdb",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "orjson": "orjson",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "scipy": "scipy",
    "tqdm": "tqdm",
    "yaml": "pyyaml",
    "zstandard": "zstandard",
}  # module: distribution
# by an extra, imported where needed
OPTIONAL = {"datasets", "huggingface_hub", "ray", "matplotlib", "jinja2", "markupsafe"}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that a file imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def top(names: Iterator[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def unsafe(source: str) -> list[str]:
    """What a file must not do, by name."""
    tree = ast.parse(source)
    found = sorted(top(imports(tree)) & UNSAFE_MODULES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in UNSAFE_CALLS:
            found.append(ast.unparse(node.func))
        if isinstance(node, ast.keyword) and node.arg in UNSAFE_WORDS:
            found.append(node.arg)
    return found


def test_importing_the_data_package_loads_nothing_heavy() -> None:
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in DATA]
    code = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        f"loaded = sorted({HEAVY!r} & set(sys.modules))\nsys.exit(f'loaded {{loaded}}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DATA, ids=short)
def test_the_data_package_never_names_the_training_side(path: Path) -> None:
    assert not top(imports(ast.parse(path.read_text()))) & TRAINING_SIDE


@pytest.mark.parametrize("path", PACKAGES, ids=short)
def test_no_module_runs_code_from_data(path: Path) -> None:
    assert unsafe(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import load",
        "def f():\n import dill",
        "eval('1')",
        "yaml.load(f)",
        "torch.load(p)",
        "x = load(p, trust_remote_code=True)",
        "numpy.load(p, allow_pickle=True)",
    ],
)
def test_the_check_for_unsafe_code_sees_it(source: str) -> None:
    assert unsafe(source)


@pytest.mark.parametrize("source", ["yaml.safe_load(f)", "re.compile('x')", "json.load(f)", "model.eval()"])
def test_the_check_for_unsafe_code_lets_the_rest_pass(source: str) -> None:
    assert unsafe(source) == []


@pytest.mark.parametrize("path", PACKAGES, ids=short)
def test_no_module_is_longer_than_600_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 600


def test_half_of_the_modules_of_the_data_package_have_at_most_150_lines_and_nine_in_ten_400() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in DATA)
    assert lengths[len(lengths) // 2] <= 150
    assert lengths[len(lengths) * 9 // 10] <= 400


def test_the_core_dependencies_are_what_the_data_package_imports() -> None:
    used = set[str]().union(*(top(imports(ast.parse(path.read_text()))) for path in DATA))
    foreign = used - set(sys.stdlib_module_names) - {"mcgpo_data"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=\[!~ ]", line)[0] for line in project["dependencies"]}
    assert foreign - OPTIONAL == set(CORE)
    assert declared == set(CORE.values())


def test_every_dependency_has_one_exact_version_among_the_constraints() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    pinned = [line.partition("==")[0] for line in lines]
    assert len(pinned) == len(set(pinned))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    names = {re.split(r"[<>=\[!~ ]", line)[0].lower().replace("_", "-") for line in wanted}
    assert names <= set(pinned)


def test_the_top_level_is_as_agreed() -> None:
    for name in (
        "pyproject.toml",
        "README.md",
        "mcgpo_data",
        "mcgpo_train",
        "pipelines",
        "schemas",
        "tests",
        "notebooks",
    ):
        assert (ROOT / name).exists(), name
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == {"mcgpo_data", "mcgpo_train"}


def test_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_wheel_holds_both_packages_whole_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"mcgpo_data", "mcgpo_train", "mcgpo"}
    for package in ("mcgpo_data", "mcgpo_train"):
        files = {
            path for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".sql", ".yaml", ".html", ".typed"}
        }
        assert {str(path.relative_to(ROOT)) for path in files} <= names

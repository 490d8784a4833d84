"""Studies that train: every file of this folder is one, its `STUDY` found under the file's name.

They import torch only when they run: the list of studies must not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from unbraid.studies.framework.study import Study

TRAINED_STUDIES: dict[str, Study] = {
    name: import_module(f"{__name__}.{name}").STUDY for name in sorted(module.name for module in iter_modules(__path__))
}

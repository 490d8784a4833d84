"""Studies that train: every file of this folder is one; its record `STUDY` is registered under the file's name.

The modules import torch only inside functions, so that listing the studies stays fast.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from unbraid.studies.framework.study import Study

TRAINED_STUDIES: dict[str, Study] = {
    name: import_module(f"{__name__}.{name}").STUDY for name in sorted(module.name for module in iter_modules(__path__))
}

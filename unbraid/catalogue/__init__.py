"""Every name of the library explained from the code: what `unbraid list` and `unbraid show` print and the site shows."""

from unbraid.catalogue.entry import Entry, Option
from unbraid.catalogue.kinds import KINDS, Kind, find, named
from unbraid.catalogue.printed import listing, markdown, text
from unbraid.catalogue.reading import Doc, read

__all__ = ["KINDS", "Doc", "Entry", "Kind", "Option", "find", "listing", "markdown", "named", "read", "text"]

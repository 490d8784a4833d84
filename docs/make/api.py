"""Write the API reference from docstrings and signatures: docs/api/, one page per public name and one per package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from unbraid.catalogue.docstrings import first_sentence, parse_docstring
from unbraid.catalogue.entry import Entry, describe_annotation
from unbraid.catalogue.kinds import KINDS
from unbraid.catalogue.rendering import escape_markdown
from unbraid.core import options
from unbraid.core.files import write_text
from unbraid.core.papers import PAPERS, papers_in

DOCS = Path(__file__).resolve().parents[1]
# pages: title and the modules whose public names they list, in the order of the data flow
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unbraid": ("unbraid", ("unbraid",)),
    "latent": ("unbraid.latent", ("unbraid.latent",)),
    "data": ("unbraid.data", ("unbraid.data", "unbraid.data.subsets.structure", "unbraid.data.subsets.splits")),
    "codes": ("unbraid.codes", ("unbraid.codes",)),
    "metrics": ("unbraid.metrics", ("unbraid.metrics",)),
    "priors": ("unbraid.priors", ("unbraid.priors",)),
    "model": ("unbraid.model", ("unbraid.model", "unbraid.model.likelihood", "unbraid.model.nets.mlp", "unbraid.model.nets.conv",
                                "unbraid.model.nets.broadcast", "unbraid.model.nets.residual")),
    "terms": ("unbraid.terms", ("unbraid.terms", "unbraid.terms.estimators")),
    "objectives": ("unbraid.objectives", ("unbraid.objectives", "unbraid.objectives.ledger", "unbraid.objectives.rows",
                                          "unbraid.objectives.gans", "unbraid.prices")),
    "runs": ("unbraid.runs", ("unbraid.runs.recipe", "unbraid.runs.run", "unbraid.runs.fitting.training", "unbraid.runs.fitting.callbacks",
                              "unbraid.runs.evaluation.encoding", "unbraid.runs.evaluation.auditing", "unbraid.runs.evaluation.scores", "unbraid.runs.evaluation.scoring",
                              "unbraid.runs.evaluation.snapshot_scores")),
    "comparing": ("unbraid.comparing", ("unbraid.comparing", "unbraid.comparing.matched_reconstruction", "unbraid.comparing.statistics")),
    "figures": ("unbraid.figures", ("unbraid.figures.registry", "unbraid.figures.run_figures", "unbraid.figures.traversals",
                                    "unbraid.figures.comparison_figures", "unbraid.figures.over_training", "unbraid.figures.score_figures",
                                    "unbraid.figures.dataset_figures", "unbraid.figures.report")),
    "sweeps": ("unbraid.sweeps", ("unbraid.sweeps",)),
    "studies": ("unbraid.studies", ("unbraid.studies",)),
    "export": ("unbraid.export", ("unbraid.export.estimator", "unbraid.export.html", "unbraid.export.onnx", "unbraid.export.hub",
                                  "unbraid.export.tracking")),
    "discovery": ("unbraid.discovery", ("unbraid.discovery",)),
    "catalogue": ("unbraid.catalogue", ("unbraid.catalogue",)),
}  # fmt: skip
REFERENCE_PAGES = {  # registries and their reference pages
    "DATASETS": "data", "PRIORS": "priors", "OBJECTIVES": "objectives", "METRICS": "metrics", "NETS": "nets", "LIKELIHOODS": "likelihoods",
    "POSTERIORS": "posteriors", "TERMS": "terms", "ESTIMATORS": "estimators", "SCHEDULES": "schedules", "ROWS": "objectives",
    "GAMES": "objectives", "FIGURES": "figures", "EXPORTS": "exports",
}  # fmt: skip

UNDOCUMENTED_HELPERS = {  # used between modules, not by users
    "unbraid.data.subsets.splits": ("Subset",),
    "unbraid.model.nets.broadcast": ("Broadcast", "halved_size"),
    "unbraid.model.nets.residual": ("ResidualBlock",),
    "unbraid.objectives.ledger": ("short_name",),
    "unbraid.prices": ("Constant", "schedule_name", "as_schedule", "format_number", "value_at", "price_to_toml"),
    "unbraid.runs.recipe": ("apply_changes",),
    "unbraid.runs.fitting.callbacks": ("validate_callbacks", "notify"),
    "unbraid.runs.fitting.training": ("fit_locked",),
    "unbraid.runs.evaluation.encoding": ("leaf_kl", "posteriors"),
    "unbraid.runs.evaluation.snapshot_scores": ("score_series",),
    "unbraid.comparing.matched_reconstruction": ("seed_curves",),
    "unbraid.comparing.statistics": ("one_sample_contrast",),
    "unbraid.figures.registry": ("FigureSpec", "FigureContext", "load_context"),
    "unbraid.figures.traversals": ("TraversalRow", "traversal_gif", "middle_image_index", "draw_traversal_rows", "traversal_rows"),
    "unbraid.figures.comparison_figures": ("pareto_front",),
    "unbraid.figures.dataset_figures": ("mosaic", "factor_traversal_indices"),
    "unbraid.figures.report": ("embed_figure",),
    "unbraid.export.html": ("render_explorer",),
    "unbraid.export.onnx": ("Decoder", "Encoder"),
    "unbraid.export.hub": ("hub_config", "strip_paths"),
    "unbraid.export.tracking": ("TrackingCallback", "ledger_row_numbers", "render_pictures"),
}

GUIDES = {  # the guide of a name, or of all names of a module
    "unbraid.fit": "training", "unbraid.Recipe": "recipes", "unbraid.RECIPES": "recipes", "unbraid.Run": "training",
    "unbraid.pretrained": "pretrained", "unbraid.tracker": "tools", "unbraid.sweep": "sweeps",
    "unbraid.audit": "tutorials/ledger_and_audit", "unbraid.Codes": "tutorials/own_codes", "unbraid.encode": "tutorials/own_codes",
    "unbraid.METRICS": "metrics", "unbraid.Score": "metrics", "unbraid.Scores": "metrics", "unbraid.score": "metrics",
    "unbraid.compare": "comparing", "unbraid.report": "report", "unbraid.Disentangler": "tools", "unbraid.DATASETS": "data",
    "unbraid.Dataset": "data", "unbraid.Latent": "latent", "unbraid.onehot": "latent", "unbraid.binary": "latent", "unbraid.real": "latent",
    "unbraid.NETS": "nets", "unbraid.LIKELIHOODS": "likelihoods", "unbraid.POSTERIORS": "posteriors", "unbraid.PRIORS": "priors",
    "unbraid.TERMS": "theory", "unbraid.OBJECTIVES": "objectives", "unbraid.Objective": "objectives",
    "unbraid.discover": "discover", "unbraid.Discovery": "discover", "unbraid.discovery": "discover", "unbraid.codes": "tutorials/own_codes",
    "unbraid.UnbraidError": "troubleshooting", "unbraid.__version__": "releases",
    "unbraid.latent": "latent", "unbraid.data": "data", "unbraid.metrics": "metrics", "unbraid.priors": "priors", "unbraid.model": "nets",
    "unbraid.terms": "theory", "unbraid.objectives": "objectives", "unbraid.prices": "objectives", "unbraid.runs": "training",
    "unbraid.comparing": "comparing", "unbraid.figures": "gallery", "unbraid.sweeps": "sweeps", "unbraid.studies": "studies",
    "unbraid.export": "tools", "unbraid.catalogue": "extending",
}  # fmt: skip
PACKAGE_SUMMARIES = {  # what a user finds in each package; the docstrings of packages speak to developers
    "unbraid": "the names that most programs need: `fit`, `Run`, `encode`, `score`, `compare`, `report`, `discover`",
    "latent": "the latent tree: its leaves and branches",
    "data": "data sets by name, your own data (`of`), splits and filters",
    "codes": "codes of a data set with their labels, as arrays",
    "metrics": "metrics of disentanglement on arrays of any framework",
    "priors": "priors by name",
    "model": "nets, posteriors, likelihoods, and the VAE that they form",
    "terms": "terms of the decomposition of the KL, and estimators of q(z)",
    "objectives": "objectives by name, and weights that change during training",
    "runs": "recipes, training, callbacks, encoding, audits and scores of runs",
    "comparing": "tables over settings and seeds, with intervals and tests",
    "figures": "figures of runs, data and comparisons, and the report",
    "sweeps": "many runs from one file",
    "studies": "the studies of the papers' claims",
    "export": "the scikit-learn estimator, HTML, ONNX, the Hugging Face hub, and trackers",
    "discovery": "factors of pictures without labels",
    "catalogue": "descriptions of all named parts, as `unbraid show` prints them",
}
ANY_DATA = "Dataset, array, tensor, pair (images, labels), torch or Hugging Face data set, or iterable"
ANY_MEANS = {  # what a parameter takes that is annotated with Any, because no type of Python says it
    "family": "subclass of Posterior", "q": "Posterior", "critic": "Ratio", "draw": "Draw", "pairs": "row numbers (m, 2), or (m, g) for groups",
    "dataset": ANY_DATA, "validation": ANY_DATA, "data": ANY_DATA, "callbacks": "object or list of objects with methods of a callback",
    "source": "Run, Codes, array, Table, or path", "sources": "Run, path, or {model: {seed: codes}}", "codes": "array, Codes or Table",
    "factors": "array of labels, or path", "images": "array of images or hashes", "x": "array or tensor of images",
    "z": "array or tensor of codes", "values": "sequence of numbers", "nets": "pair of torch.nn.Module", "prior": "Prior",
    "scoring": "options of unbraid.score", "inputs": "options of unbraid.metrics.as_table", "fields": "fields of the recipe",
    "index": "array of whole numbers", "runs": "sequence of Run", "spec": "dict with name and options", "labels": "array or dict of arrays",
    "options": "options by name", "settings": "entries by name", "objective": "name or dict with name and options",
    "latent": "whole number, layout or dict", "lr": "number or schedule", "likelihood": "name or dict with name and options",
    "random_state": "whole number, generator of numpy, or None", "X": "array of images or vectors", "y": "array of labels, or None",
    "input_features": "None", "groups": "None, text, list, dict or Latent", "unknown": "nothing", "model": "Vae", "estimator": "function or None",
    "pictures": ANY_DATA, "nats": "tensor", "plain": "number or dict", "default": "value of the option",
    "width": "whole number or list of whole numbers", "channels": "whole number or list of whole numbers", "depth": "whole number",
    "hidden": "whole number", "pixel": "list of whole numbers", "spread": "number", "blocks": "whole number",
    "reconstructions": "array of images", "a": "array, Codes or Table", "b": "array, Codes or Table",
}  # fmt: skip

SHARED_PARAMETERS = {  # descriptions of parameters that functions of one kind share
    "tree": "the latent tree.", "codes": 'codes "n d", or codes with labels.', "factors": 'labels "n k"; None if the codes have them.',
    "inputs": "how codes and labels are read: `names`, `kinds`, `groups`, `prune` and other options of `unbraid.metrics.as_table`.",
    "b": "the number of posteriors in the batch.", "n": "the number of images in the data set.",
    "shape": "channels, height and width of an image.", "params": "the number of outputs of the encoder.",
    "outputs": "the number of output channels of the decoder.",
}  # fmt: skip

SCHEDULE_EXAMPLE = {  # values of options, or of the option of one schedule
    "start": "1.0", "stop": "4.0", "steps": "1000", "factor": "0.5", "then": "4.0", "floor": "0.5", "capacity.gamma": "100.0",
    "capacity.stop": "25.0", "stages.steps": "[1000]", "stages.prices": "[1.0, 4.0]",
}  # fmt: skip


@cache
def catalogue_entries() -> dict[int, Entry]:
    """What `unbraid show` says of a function or class that a registry names, by its id."""
    from unbraid import LIKELIHOODS, METRICS, NETS, POSTERIORS, PRIORS
    from unbraid.objectives.gans import GAMES
    from unbraid.objectives.rows import ROWS
    from unbraid.prices import SCHEDULES
    from unbraid.terms.estimators import WEIGHTS

    parts = {
        "objectives": {**ROWS, **GAMES}, "metrics": {name: metric.call for name, metric in METRICS.items()}, "nets": NETS, "priors": PRIORS,
        "posteriors": POSTERIORS, "likelihoods": LIKELIHOODS, "schedules": SCHEDULES, "estimators": WEIGHTS,
    }  # fmt: skip
    entries = {kind: KINDS[kind].entries() for kind in parts}
    return {id(part): entries[kind][name] for kind, every in parts.items() for name, part in every.items()}


def public_names(module: ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or what it defines."""
    named = getattr(module, "__all__", None)
    if named is not None:
        return list(named)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and _is_class_or_function(value)
        and name not in UNDOCUMENTED_HELPERS.get(module.__name__, ())
    ]


def _is_class_or_function(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def names_on_page(page: str) -> Iterator[tuple[str, str, Any]]:
    """Module, name and value of everything on a page, each once; names of `unbraid` are on its page only."""
    top = import_module("unbraid")
    seen: set[int] = set() if page == "unbraid" else {id(getattr(top, name)) for name in top.__all__}
    for where in PAGES[page][1]:
        module = import_module(where)
        for name in public_names(module):
            value = getattr(module, name)
            if isinstance(value, ModuleType) or id(value) in seen:
                continue
            seen.add(id(value))
            yield where, name, value


def page_text(page: str) -> str:
    """The text of one page."""
    title, modules = PAGES[page]
    slugs = page_slugs()
    parts = [f"# {title}", escape_markdown(parse_docstring(import_module(modules[0] if page != "figures" else title).__doc__).summary)]
    top = import_module("unbraid")
    shared = [n for n in top.__all__ if page != "unbraid" and any(getattr(import_module(m), n, 0) is getattr(top, n) and n in public_names(import_module(m)) for m in modules)]
    if shared:
        parts.append(f"On [the page of `unbraid`](unbraid.md): {', '.join(f'{{py:obj}}`~unbraid.{n}`' for n in shared)}.")
    groups: dict[str, list[str]] = {}
    for where, name, value in names_on_page(page):
        about = first_sentence(parse_docstring(value.__doc__).summary) if _is_class_or_function(value) else _describe_data(value)
        groups.setdefault(where, []).append(f"| [`{name}`]({slugs[where, name]}.md) | {escape_markdown(about)} |")
    for where, rows in groups.items():
        if len(groups) > 1:
            parts.append(f"## {where}\n\n{escape_markdown(parse_docstring(import_module(where).__doc__).summary)}")
        parts.append("\n".join(["| name | |", "|---|---|", *rows]))
    tree = "\n".join(slugs[where, name] for where, name, _ in names_on_page(page))
    parts += [f"```{{toctree}}\n:hidden:\n\n{tree}\n```"] if tree else []
    return "\n\n".join(part for part in parts if part) + "\n"


@cache
def page_slugs() -> dict[tuple[str, str], str]:
    """The file name of every page by module and name; names that differ only in case get different file names."""
    every = [(where, name, value) for page in PAGES for where, name, value in names_on_page(page)]
    functions = {f"{where}.{name}".lower() for where, name, value in every if not inspect.isclass(value)}
    return {
        (where, name): f"{where}.{name}" + ("_class" if inspect.isclass(value) and f"{where}.{name}".lower() in functions else "")
        for where, name, value in every
    }


def name_text(where: str, name: str, value: Any) -> str:
    """The text of the page of one name.

    Args:
        where: its module.
        name: its name.
        value: the object.
    """
    guide = GUIDES.get(f"{where}.{name}") or next((g for m, g in GUIDES.items() if where.startswith(m) and m != "unbraid"), "")
    link = f"Guide: [{(DOCS / f'{guide}.md').read_text().splitlines()[0].lstrip('# ')}](../{guide}.md)." if guide else ""
    return "\n\n".join(part for part in (f"# {name}", link, describe_name(where, name, value)) if part) + "\n"


def describe_name(module_name: str, name: str, value: Any) -> str:
    """Describe a function, a class with its methods, or a dict.

    Args:
        module_name: its module.
        name: its name.
        value: the object.
    """
    if inspect.isclass(value):
        return _describe_class(module_name, name, value)
    if inspect.isfunction(value):
        return _directive("py:function", f"{module_name}.{name}{format_signature(value)}", docstring_body(value), 3)
    see = f" See [the list](../reference/{REFERENCE_PAGES[name]}.md)." if name in REFERENCE_PAGES else ""
    shown = f"`{value!r}`" if isinstance(value, str) else escape_markdown(_describe_data(value))
    return _directive("py:data", f"{module_name}.{name}", f"{shown}{see}", 3)


def _describe_data(value: Any) -> str:
    """What a public name holds that is neither a function nor a class."""
    if isinstance(value, dict):
        return f"A dict of {len(value)} entries by name: {', '.join(list(value)[:6])}{' …' if len(value) > 6 else ''}."
    return "A type for annotations." if str(type(value)).find("typing") >= 0 or type(value).__name__ == "UnionType" else f"{value!r}"[:80]


def _describe_class(module_name: str, name: str, value: type) -> str:
    inside = [docstring_body(value)]
    for method, raw in vars(value).items():
        if method.startswith("_") or method == "model_config":
            continue
        kind = type(raw)
        function = raw.__func__ if kind in (classmethod, staticmethod) else raw
        if isinstance(raw, property) or kind.__name__ == "cached_property":
            getter = raw.fget if isinstance(raw, property) else raw.func
            inside.append(_directive("py:property", method, docstring_body(getter), 3, **_property_type(getter)))
        elif inspect.isfunction(function):
            flags = {kind.__name__: ""} if kind in (classmethod, staticmethod) else {}
            head = f"{method}{format_signature(function, bound=kind is not staticmethod)}"
            head = re.sub(rf"-> {name}$", f"-> {module_name}.{name}", head)  # posteriors and likelihoods share names
            inside.append(_directive("py:method", head, docstring_body(function), 3, **flags))
    return _directive("py:class", f"{module_name}.{name}{_class_signature(value)}", "\n\n".join(inside), 4)


def _class_signature(value: type) -> str:
    """The constructor of a class; "" for a class that users do not call."""
    if inspect.isabstract(value) or issubclass(value, Exception):
        return ""
    try:
        return format_signature(value)
    except (TypeError, ValueError):
        return ""


def _property_type(getter: Any) -> dict[str, str]:
    hint = getter.__annotations__.get("return", "")
    return {"type": hint} if isinstance(hint, str) and hint else {}


def format_signature(value: Any, bound: bool = False) -> str:
    """Format a signature as in the source, with shapes.

    Args:
        value: the function.
        bound: leave out self.
    """
    found = inspect.signature(value)
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    parts: list[str] = []
    starred = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        hint = _format_annotation(p.annotation)
        hint = "" if hint in ("Any", "Any | None") else hint  # the table says what is meant
        default = "" if p.default is p.empty else f" = {_format_default(p.default)}" if hint else f"={_format_default(p.default)}"
        parts.append(f"{mark}{p.name}{f': {hint}' if hint else ''}{default}")
    back = _format_annotation(found.return_annotation)
    return f"({', '.join(parts)}){f' -> {back}' if back and not inspect.isclass(value) else ''}"


def _format_annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty or annotation is None:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _format_default(default: Any) -> str:
    shown = repr(default)
    return shown if isinstance(default, bool | int | float | str | tuple | list | dict | type(None)) and len(shown) < 60 else "…"


def docstring_body(value: Any) -> str:
    """The parts of a docstring: summary, formula, text, options, papers, example."""
    parameters = _parameter_names(value)
    doc = parse_docstring(value.__doc__, parameters)
    parts = [_prose(doc.summary)]
    parts += [f"```text\n{doc.formula}\n```"] if doc.formula and doc.formula not in doc.summary else []
    parts += [_prose(paragraph) for paragraph in doc.text]
    hints, entry = _type_hints(value), catalogue_entries().get(id(value))
    shared = {**SHARED_PARAMETERS, **{option.name: option.about for option in entry.options}} if entry else {}
    described = {**shared, **doc.options}
    parts += [_parameter_table(value, described, hints)] if set(parameters) & set(described) else []
    back = _format_annotation(inspect.signature(value).return_annotation) if inspect.isfunction(value) else ""
    parts += [f"**Returns** `{back}`"] if back and back != "None" else []
    parts += ["**Raises** {py:obj}`~unbraid.UnbraidError` for a mistake that the caller can correct."] if _checks_input(value) else []
    parts += [f"**Use it** {escape_markdown(doc.use)}"] if doc.use else []
    parts += [f"**Not** {escape_markdown(doc.avoid)}"] if doc.avoid else []
    parts += [f"```pycon\n{doc.example}\n```"] if doc.example else []
    parts += [f"```python\n{drawn}\n```"] if not doc.example and (drawn := gallery_example(value)) else []
    parts += [f"In a recipe:\n\n```toml\n{_recipe_lines(entry)}\n```"] if entry and _recipe_lines(entry) else []
    papers = [escape_markdown(PAPERS[key].reference) for key in papers_in(value.__doc__) if key != "this library"]
    parts += ["\n".join(["Papers:", "", *(f"- {line}" for line in papers)])] if papers else []
    return "\n\n".join(part for part in parts if part)


def _prose(text: str) -> str:
    """Text of a docstring as Markdown; the file of a page becomes a link to it."""

    def link(found: re.Match[str]) -> str:
        page = DOCS / f"{found[1].replace(chr(92), '')}.md"
        return f"[{page.read_text().splitlines()[0].lstrip('# ')}](../{page.relative_to(DOCS)})" if page.is_file() else found[0]

    return re.sub(r"\bdocs/([\w/\\]+)\.md", link, escape_markdown(text))


def _parameter_table(value: Any, described: Mapping[str, str], hints: Mapping[str, Any]) -> str:
    """The parameters with type, default and description."""
    rows = []
    for p in inspect.signature(value).parameters.values():
        if p.name not in described:
            continue
        kind = _format_annotation(p.annotation) or describe_annotation(hints.get(p.name, Any))
        means = ANY_MEANS.get(p.name, "any value") if kind in ("Any", "", "Any | None") else f"`{kind}`"
        default = "" if p.default is p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) else f"`{_format_default(p.default)}`"
        cells = [f"`{p.name}`", means.replace("|", "\\|"), default.replace("|", "\\|"), _prose(described[p.name])]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(["| parameter | type | default | |", "|---|---|---|---|", *rows])


def _checks_input(value: Any) -> bool:
    """Whether a function checks its input itself; those that only call others are not listed."""
    if not inspect.isfunction(value):
        return False
    try:
        return bool(re.search(r"\b(expect|choose|UnbraidError|as_dataset|as_table|Recipe\.load)\(", inspect.getsource(value)))
    except OSError:
        return False


def gallery_example(value: Any) -> str:
    """The lines of the gallery that call a function of the figures; "" for other functions."""
    where = getattr(value, "__module__", "")
    if not where.startswith("unbraid.figures.") or not inspect.isfunction(value):
        return ""
    import gallery

    called, behind = f"{where.rsplit('.', 1)[-1]}.{value.__name__}(", f'registry.write_figure("{gallery.FIGURE_OF_FUNCTION.get(value.__name__)}"'
    lines = [picture.code for group in gallery.gallery_items().values() for picture in group]
    return next((each for mark in (called, behind) for each in lines if mark in each), "")


def _recipe_lines(entry: Entry) -> str:
    """How a recipe names a part; "" for a part that recipes do not name."""
    if entry.kind == "schedule":
        known = {option.name: SCHEDULE_EXAMPLE.get(option.name, option.default_text) for option in entry.options}
        values = {name: SCHEDULE_EXAMPLE.get(f"{entry.name}.{name}", value) for name, value in known.items()}
        return f'beta = {{schedule = "{entry.name}", {", ".join(f"{name} = {value}" for name, value in values.items())}}}'
    return entry.toml or (entry.facts.get("call", "") if entry.kind == "estimator" else "")


def _parameter_names(value: Any) -> list[str]:
    try:
        return list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return []


def _type_hints(value: Any) -> dict[str, Any]:
    try:
        return options.type_hints(value)
    except Exception:  # an annotation for type checkers only
        return {}


def _directive(kind: str, head: str, content: str, fence: int, **flags: str) -> str:
    lines = [f":{flag}:{f' {value}' if value else ''}" for flag, value in flags.items()]
    return "\n".join([f"{':' * fence}{{{kind}}} {head}", *lines, "", content, ":" * fence])


def index_page() -> str:
    """The index of the pages."""
    lines = [f"- [{title}]({page}.md): {PACKAGE_SUMMARIES[page]}" for page, (title, _) in PAGES.items()]
    tree = "\n".join(PAGES)
    return (
        "# API reference\n\nWhat does a function take and return? Every public name has a page, made from its docstring: parameters with their types, "
        "what it returns, an example, and a link to the guide. Shapes are written with fixed letters: `b` batch, `n` data, `d` columns of code, `l` leaves, "
        "`v` nodes of the tree, `k` factors, `c h w` an image; `*s` is any leading shape. Every example on these pages is run by the tests.\n\n"
        f"{chr(10).join(lines)}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def write_pages(folder: Path) -> None:
    """Write changed pages into a folder; Sphinx does not read unchanged ones again."""
    folder.mkdir(exist_ok=True)
    names = {page_slugs()[where, name]: name_text(where, name, value) for page in PAGES for where, name, value in names_on_page(page)}
    made = {"index": index_page(), **{page: page_text(page) for page in PAGES}, **names}
    for stale in {path.stem for path in folder.glob("*.md")} - made.keys():
        (folder / f"{stale}.md").unlink()
    for name, page in made.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text() != page:
            write_text(path, page)

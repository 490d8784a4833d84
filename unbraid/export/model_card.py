"""The model card of a run: data, training, scores, use and citations."""

from __future__ import annotations

import json
import math
import re
from html import escape
from pathlib import Path
from typing import Any

from unbraid._version import __version__
from unbraid.core.files import is_file
from unbraid.runs import Recipe, Run, Scores
from unbraid.runs.describing.citations import bibliography, run_citations
from unbraid.runs.describing.titles import description
from unbraid.runs.folder.file_names import SCORES_FILE
from unbraid.runs.folder.leaf_names import read_leaf_names

CARD_FILE, PICTURE_FILE = "README.md", "traversals.png"


def render_model_card(run: Run, recipe: Recipe, folder: Path) -> str:
    """Render the model card as Markdown with Hugging Face's YAML header.

    Args:
        run: the run.
        recipe: its recipe, without paths.
        folder: the folder of the card; its scores and traversals are included.
    """
    scores = Scores.load(folder) if is_file(folder / SCORES_FILE) else None
    parts = [
        _yaml_header(recipe, scores),
        f"# {_escape_text(recipe.name)}\n\n"
        + (_escape_text(description(recipe)) or "A latent-variable model trained with unbraid."),
        f"![Traversals: each row moves one leaf]({PICTURE_FILE})" if is_file(folder / PICTURE_FILE) else "",
        _usage_section(),
        _training_section(run, recipe),
        _names_section(run),
        _scores_section(scores),
        _audit_section(run),
        f"## Recipe\n\n{_code_block('toml', recipe.toml())}",
        f"## Cite\n\n{_code_block('bibtex', bibliography(run_citations(run)))}",
        f"*unbraid {__version__} wrote this card from the run.*",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _yaml_header(recipe: Recipe, scores: Scores | None) -> str:
    """The YAML that the hub reads; JSON values are valid YAML."""
    tags = ["unbraid", "disentanglement", "representation-learning", str(recipe.objective.get("name", ""))]
    lines = ["---", "library_name: unbraid", f"tags: {json.dumps(tags)}"]
    measured = [] if scores is None else [(n, s) for n, s in scores.items() if math.isfinite(s.value)]
    if measured:
        data = str(recipe.data.get("name", ""))
        metrics = [{"type": name, "value": round(s.value, 6), "name": name} for name, s in measured]
        task = {"type": "feature-extraction", "name": "disentangled representation"}
        result = {"task": task, "dataset": {"type": data, "name": data}, "metrics": metrics}
        lines.append(f"model-index: {json.dumps([{'name': recipe.name, 'results': [result]}], ensure_ascii=False)}")
    return "\n".join([*lines, "---"])


def _usage_section() -> str:
    return """## Use

```python
from unbraid import Run

run = Run.load("path/to/this/folder")  # or huggingface_hub.snapshot_download("name/of-this-model")
codes = run.encode(images)             # "n channels height width", as in training
back = run.decode(codes)
new = run.sample(16)
```"""


def _training_section(run: Run, recipe: Recipe) -> str:
    state, budget, data = run.state, recipe.budget, dict(recipe.data)
    options = ", ".join(f"{key} {value}" for key, value in data.items() if key != "name")
    prices = ", ".join(f"{key} {value}" for key, value in recipe.objective.items() if key != "name")
    rows = {
        "data": f"{data.get('name', '?')}{f' ({options})' if options else ''}: {state.get('n', '?')} examples of "
        + "×".join(map(str, state["shape"])),
        "objective": f"{recipe.objective.get('name', '?')}{f' ({prices})' if prices else ''}",
        "latent": f"{recipe.tree}, prior {recipe.prior.get('name', 'gaussian')}",
        "nets": f"{recipe.nets.get('name', '?')}, {sum(p.numel() for p in run.model.parameters()):,} parameters",
        "training": f"{state['step']:,} steps of {budget.batch}, {budget.optimiser}, seed {recipe.seed}",
        "versions": f"unbraid {state.get('unbraid', '?')}, torch {state.get('torch', '?')}",
    }
    return "## Model\n\n" + _markdown_table(("", ""), [[name, text] for name, text in rows.items()])


def _names_section(run: Run) -> str:
    """The names that users gave to leaves."""
    names = read_leaf_names(run.path)
    return "## Leaves\n\n" + _markdown_table(("leaf", "name"), [list(pair) for pair in names.items()]) if names else ""


def _scores_section(scores: Scores | None) -> str:
    if scores is None:
        return "## Scores\n\nThis run was not scored (`unbraid score RUN`)."
    ends = {name: f"{s.interval[0]:.3f} – {s.interval[1]:.3f}" if s.interval else "–" for name, s in scores.items()}
    rows = [[name, f"{s.value:.3f}", ends[name]] for name, s in scores.items() if math.isfinite(s.value)]
    single = all(s.interval is None for s in scores.values())
    note = " One repetition each, so there are no intervals (`--seeds 5` computes them)." if single else ""
    table = _markdown_table(("metric", "score", "95% interval"), rows)
    return f"## Scores\n\n{_escape_text(scores.title)}.{note}\n\n{table}"


def _audit_section(run: Run) -> str:
    audit = run.saved_audit()
    if audit is None:
        return ""
    rows = [[key, f"{value:.3f} ± {audit['errors'][key]:.3f}"] for key, value in audit["nats"].items()]
    over = f"the {_escape_text(audit['estimator'])} q(z) over {audit['components']:,} posteriors"
    return f"## Terms\n\nNats per example, with {over}.\n\n" + _markdown_table(("term", "nats"), rows)


def _markdown_table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_escape_cell(cell) for cell in line) + " |" for line in lines)


def _escape_cell(cell: Any) -> str:
    """Escape text, and a bar, which would end the cell."""
    return _escape_text(cell).replace("|", "\\|")


def _escape_text(text: Any) -> str:
    """Text on one line without HTML, links and images: the hub renders the card, and a recipe may come from others."""
    return escape(" ".join(str(text).split()), quote=False).replace("](", "]\\(")


def _code_block(language: str, text: str) -> str:
    """A fenced code block; the fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.strip()}\n{fence}"

"""The LaTeX table in LaTeX itself."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import unbraid

DOCUMENT = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n%s\n\\end{document}\n"


@pytest.mark.slow
def test_a_table_with_every_awkward_sign_compiles(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed (Debian: texlive-latex-recommended)")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, (300, 2))
    names = ("beta_vae β=4", r"50%_a&b #1 ~x^2 {z} $ \\ <|>", "αβγδεζηθικλμνξπρστυφχψω ×−≤≥–…±")
    codes = {name: {s: y + 0.3 * rng.normal(size=y.shape) for s in range(3)} for name in names}
    table = unbraid.compare(codes, factors=y, metrics="mig,sap", baseline=names[0])
    (tmp_path / "t.tex").write_text(DOCUMENT % table.latex())
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout[-1500:]
    assert (tmp_path / "t.pdf").stat().st_size > 10_000

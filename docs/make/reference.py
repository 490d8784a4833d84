"""Write the reference pages: every entry of every registry, as `unbraid show` prints it, to docs/reference/ before each build."""

from __future__ import annotations

from pathlib import Path

from unbraid.catalogue import KINDS, Entry, render_entry_markdown
from unbraid.catalogue.rendering import escape_markdown, link_anchor, one_sentence
from unbraid.core.files import write_text

GUIDES = {  # the guide of each kind
    "fields": "recipes", "data": "data", "nets": "nets", "likelihoods": "likelihoods", "posteriors": "posteriors", "priors": "priors",
    "objectives": "objectives", "terms": "theory", "estimators": "estimators", "schedules": "training", "metrics": "metrics",
    "figures": "gallery", "exports": "tools",
}  # fmt: skip

SEARCH_TERMS = {  # names in papers, for the search
    "objectives": {
        "vae": "VAE", "beta_vae": "β-VAE; beta-VAE", "beta_svae": "β-SVAE", "annealed_vae": "AnnealedVAE; capacity", "free_bits_vae": "free bits",
        "factor_vae": "FactorVAE", "aae": "AAE; adversarial autoencoder", "information_dropout": "information dropout",
        "beta_tcvae": "β-TCVAE; beta-TCVAE; TCVAE", "hfvae": "HFVAE", "isa_vae": "ISA-VAE", "isa_tcvae": "ISA-TCVAE", "dip_vae_i": "DIP-VAE; DIP-VAE-I",
        "dip_vae_ii": "DIP-VAE-II", "info_vae": "InfoVAE", "wae": "WAE; Wasserstein autoencoder", "anchor_vae": "AnchorVAE; CorEx",
        "hfs_vae": "HFS; Hausdorff factorised support", "info_gan": "InfoGAN", "info_wgan_gp": "InfoWGAN-GP",
    },
    "metrics": {
        "mig": "MIG; mutual information gap", "dci": "DCI; disentanglement, completeness, informativeness", "sap": "SAP", "irs": "IRS", "mcc": "MCC",
        "factor_vae": "FactorVAE metric", "beta_vae": "β-VAE metric; Higgins metric", "udr": "UDR",
    },
    "priors": {"vamp": "VampPrior; VAMP", "isa": "ISA prior; independent subspace analysis"},
    "nets": {"broadcast": "spatial broadcast decoder"},
}  # fmt: skip


def kind_page(kind: str) -> str:
    """All names of a kind on one page."""
    known = KINDS[kind]
    entries = known.entries()
    head = [
        f"# {kind.capitalize()} by name",
        f"{known.about[0].upper()}{known.about[1:].replace('[', '`[').replace(']', ']`')}. The guide is [here](../{GUIDES[kind]}.md); "
        f"on the command line: `unbraid list {kind}`, `unbraid show {known.singular} NAME`.",
        "\n".join(f"- [{escape_markdown(name)}](#{known.singular}-{link_anchor(name)}): {escape_markdown(one_sentence(entry))}" for name, entry in entries.items()),
    ]
    return "\n\n".join([*head, *(_entry_with_index(kind, entry) for entry in entries.values())]) + "\n"


def _entry_with_index(kind: str, entry: Entry) -> str:
    """An entry for the site, with its names for the search."""
    label, heading, rest = render_entry_markdown(_without_status(entry)).split("\n", 2)
    names = [each for each in SEARCH_TERMS.get(kind, {}).get(entry.name, "").split("; ") if each]
    marks = "".join(f"\n```{{index}} ! single: {each.replace(',', ' ')}\n```\n" for each in names)
    return f"{label}\n{heading}\n{marks}{rest}"


def _without_status(entry: Entry) -> Entry:
    """An entry without the status of a data set, which depends on the machine."""
    from dataclasses import replace

    return replace(entry, facts={head: text for head, text in entry.facts.items() if head != "status"})


def index_page() -> str:
    """The index of the pages."""
    lines = [f"- [{kind.capitalize()}]({kind}.md): {known.about.split(';')[0]}" for kind, known in KINDS.items()]
    tree = "\n".join(KINDS)
    return (
        "# Names and options\n\nEvery name that a recipe or a command takes, with formula, options, defaults and paper. These pages are "
        f"made from the docstrings and signatures of the code.\n\n{chr(10).join(lines)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def write_pages(folder: Path) -> None:
    """Write changed pages into a folder; Sphinx does not read unchanged ones again."""
    folder.mkdir(exist_ok=True)
    pages = {"index": index_page(), **{kind: kind_page(kind) for kind in KINDS}}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text() != text:
            write_text(path, text)

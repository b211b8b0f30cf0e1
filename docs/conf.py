"""The documentation site: `make docs` builds it into build/docs; warnings fail the build."""

from __future__ import annotations

import re
from importlib.metadata import version as installed
from itertools import chain
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx_gallery.sorting import ExplicitOrder

project = "wassloss"
author = "the wassloss contributors"
copyright = author
release = installed("wassloss")
html_title = f"wassloss {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]

# The Markdown files are also read on a code host, so nothing here may change their content.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["figures/*.py", "gallery/*.ipynb", "gallery/*.py"]

# Docstrings mark code with single backticks, as Markdown does.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings describe the types more briefly
autodoc_inherit_docstrings = False  # torch and scikit-learn document their own methods
add_module_names = False

nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"pathlib\.Path"),
    # Documented elsewhere; the build does not fetch inventories.
    ("py:.*", r"(torch|numpy|sklearn|abc|enum|collections|typing|torchmetrics)\..*"),
    ("py:class", r"lightning\.pytorch\..*"),
    # Annotations of the application that are imported for type checkers only, in their short form.
    (
        "py:class",
        r"(NDArray|np\.int64|np\.float64|Difference|Encoder|Fingerprints|Path)",
    ),
    # Private modules that docstrings mention.
    ("py:.*", r"wassloss\.(scores\.differences|app).*"),
    ("py:.*", r"wassloss\.(estimators\.(base|model_file)|transport|ground\.notions)\..*"),
]

bibtex_bibfiles = ["references.bib"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo_",
    "within_subsection_order": ExplicitOrder(
        [
            "plot_distance_of_a_mistake.py",
            "plot_transport_plan.py",
            "plot_ordered_labels.py",
            "plot_tree.py",
            "plot_word_tags.py",
            "plot_displaced_blob.py",
            "plot_segmentation.py",
            "plot_counts.py",
            "plot_noisy_labels.py",
            "plot_learning_the_cost.py",
            "*",
        ]
    ),
    "abort_on_example_error": True,
    "capture_repr": (),
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
}

templates_path: list[str] = []
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"


def _skip(app, what, name, thing, skip, options):
    """Skip the methods that scikit-learn adds to every estimator for metadata routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _name_public_bases(app, name, thing, options, bases):
    """Say of a class what it is a kind of, not from where it shares its code."""
    public = [base.__base__ if base.__name__.startswith("_") else base for base in bases]
    bases[:] = dict.fromkeys(public)


def _link_to_the_gallery(app, page, source):
    """Links to an example's source on a code host lead to its gallery page here."""
    up = r"\((?:\.\./)+examples"
    source[0] = re.sub(up + r"/(plot_\w+)\.py\)", r"(/gallery/\1.rst)", source[0])
    source[0] = re.sub(up + r"\)", "(/gallery/index.rst)", source[0])


def _mathml(as_block):
    """Render formulas as MathML, which browsers display without a script."""

    def visit(translator, node):
        try:
            translator.body.append(tex2mathml(node.astext(), as_block=as_block))
        except MathError as error:
            logging.getLogger(__name__).warning("%s", error, location=node)
        raise nodes.SkipNode

    return visit, None


# Pages that stand below another one in the navigation.
_BELOW = {
    "developers/index": [
        f"developers/{name}"
        for name in (
            "architecture",
            "robustness",
            "performance",
            "experiment-data",
            "tagged-photographs",
            "dependencies",
            "history",
        )
    ],
    "data": ["datasheets/clipart", "datasheets/definitions"],
    "results/README": ["results/NOTES"],
    "benchmarks/README": sorted(
        f"benchmarks/{page.stem}"
        for page in (Path(__file__).parent / "benchmarks").glob("*.md")
        if page.stem != "README"
    ),
}


def _list_below(app, page, source):
    """Append the pages that stand below this one to its contents."""
    if page in _BELOW:
        source[0] += _toctree(f"/{name}" for name in _BELOW[page])


def _toctree(names, caption=""):
    entries = "\n".join(names)
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{entries}\n```\n"


def _show_dark_pictures(app, page, source):
    """A drawing that has a version for dark pages is shown in both."""

    def both(match):
        alt, light = match.groups()
        dark = light.replace(".svg", "-dark.svg")
        if not (Path(app.srcdir) / Path(page).parent / dark).exists():
            return match[0]
        return "\n".join(
            f"```{{image}} {path}\n:alt: {alt}\n:class: {when}\n```\n"
            for path, when in ((light, "only-light"), (dark, "only-dark"))
        )

    source[0] = re.sub(r"^!\[(.*?)\]\((\S+\.svg)\)$", both, source[0], flags=re.MULTILINE)


def _list_the_rest(app, page, source):
    """Append pages that the front page does not name to its contents."""
    if page != "index":
        return
    named = {"index", "sg_execution_times", *source[0].splitlines(), *chain(*_BELOW.values())}
    rest = [
        name
        for name in sorted(app.env.found_docs - named)
        if name.split("/")[0] not in ("api", "gallery")
    ]
    if rest:
        source[0] += _toctree(rest, ":caption: More\n")


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", _link_to_the_gallery)
    app.connect("source-read", _list_below)
    app.connect("source-read", _list_the_rest)
    app.connect("source-read", _show_dark_pictures)
    app.add_html_math_renderer("mathml", _mathml(as_block=False), _mathml(as_block=True))
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-bases", _name_public_bases)

"""How Sphinx builds the site; `docs/build_site.py` makes its source and runs it."""

import os
from typing import Any

from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

project = "txqueue"
author = "the txqueue developers"
release = version = os.environ["TXQUEUE_VERSION"]
html_title = "txqueue"
root_doc = "index"
language = "en"

# Bodies of functions stand between dollars.
lexers["sql"] = PostgresLexer()
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["files"]
# GitHub's anchors, down to the methods of the Python API.
myst_heading_anchors = 4
# Without prompts and output.
copybutton_prompt_text = r"\$ |>>> |\.\.\. |\w*=[>#] "
copybutton_prompt_is_regexp = True

# Of `make links`. Servers of the reader's own machine run only while a page is followed.
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)\b"]
linkcheck_timeout = 15
linkcheck_retries = 2

html_theme = "furo"
html_favicon = "../../txqueue/web/static/mark.svg"
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        f"sidebar/{part}.html"
        for part in ("brand", "search", "versions", "scroll-start", "navigation", "scroll-end")
    ]
}
# The theme's own underlines the names of classes, as if they were links.
pygments_dark_style = "github-dark"
# The colours of the dashboard.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5f70", "color-brand-content": "#0b5f70"},
    "dark_css_variables": {"color-brand-primary": "#74c6d6", "color-brand-content": "#74c6d6"},
}


# Where a page is edited, such as `https://github.com/NAME/txqueue/edit/main/{file}`: without it, no
# page has a link to that, as txqueue has no public repository.
EDIT = os.environ.get("TXQUEUE_EDIT", "")


def link_source(_app: Sphinx, *given: Any) -> None:
    """Let the link to edit a page lead to its file in the repository."""
    _page, _template, context, _tree = given
    if EDIT and (file := (context.get("meta") or {}).get("file")):
        context["theme_source_edit_link"] = EDIT.format(file=file)


def setup(app: Sphinx) -> None:
    """Have Sphinx ask for the link of each page."""
    app.connect("html-page-context", link_source)

"""One self-contained HTML page about a fitted clustering: no address outside itself is asked."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from scipy import sparse

from pellucid.explain import Explanation, explain
from pellucid.explain.view import View, default_names, view
from pellucid.report import sections
from pellucid.report.chart import histogram, scatter
from pellucid.report.colours import colour
from pellucid.report.compare import Rival, Truth, check_labels
from pellucid.report.gallery import TEXT, Gallery, Given, picture_shape, shorten
from pellucid.report.modelcard import facts, versions
from pellucid.report.points import columns, place
from pellucid.report.survey import Survey
from pellucid.report.training import training

EXEMPLARS = 6
SCRIPTS = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.min.js")
# Inside a script element only these could end it, or begin something else.
UNSAFE = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_report(
    est: Any,
    X: Any,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    y: Any = None,
    feature_names: Any = None,
    texts: Any = None,
    images: Any = None,
    ids: Any = None,
) -> Path:
    """Write what ``est`` found in ``X`` as one HTML file that opens anywhere; return its path.

    Parameters
    ----------
    est : fitted estimator of this package, or scikit-learn's KMeans or MiniBatchKMeans
    X : what it was fitted on, or new data of the same kind
        Read in pieces. Images, and flat rows that make a square of 8 x 8 or more, without names
        and not negative, are shown as pictures.
    path : str or Path
        The file to write; an existing one is replaced, in one step, when the page is complete.
    title : str, optional
    y : sequence with a label per row, optional
        Known labels, for a section of their own. Nothing else on the page sees them.
    feature_names : sequence of str, optional
    texts, images, ids : sequences with an entry per row, optional
        What is shown for a row.
    """
    target = writable(path)
    seen = view(est, X, feature_names)
    if y is not None:
        check_labels(y, seen.n)
    shown: dict[str, Any] = {"texts": texts, "images": images, "ids": ids}
    known = (feature_names, seen.data.feature_names, getattr(est, "feature_names_in_", None))
    named = sparse.issparse(X) or any(names is not None for names in known)
    cards = min(seen.k, sections.MOST_CARDS)
    pixels = picture_shape(seen, named)
    if pixels and len(seen.shape) == 1 and images is None:
        feature_names = default_names(pixels)
    told = explain(est, X, n_exemplars=EXEMPLARS, feature_names=feature_names, **shown)
    gallery = Gallery(seen, Given(**shown, named=named), cards)
    replace(target, compose(seen, told, gallery, title, y))
    return target


def compose(seen: View, told: Explanation, gallery: Gallery, title: str | None, y: Any) -> str:
    """The page."""
    survey = Survey.of(seen, gallery)
    flat, rival = place(seen, survey), Rival.of(seen, survey)
    trained = training(seen.est, gallery)
    margins = told.ambiguity
    charts = {"map": scatter(seen.k, len(survey.rows))}
    charts |= {name: spec for name, (_, spec) in (trained["charts"] if trained else {}).items()}
    if seen.k > 1:
        charts["margins"] = histogram(margins.margins.tolist(), margins.edges.tolist())
    cards = sections.cards(told, gallery)
    carded = [card["id"] for card in cards]
    data = {"points": columns(seen, survey, gallery, flat, carded), "charts": charts}
    heading = title or f"{seen.k:,} clusters of {seen.n:,} samples"
    scripts = (*(vendored(name) for name in SCRIPTS), own("page.js"))
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=shorten(heading, TEXT),
            lede=sections.lede(told),
            told=told,
            sizes=sections.sizes(told),
            carded=carded,
            facts=facts(seen, told),
            settings=repr(seen.est),
            versions=versions(),
            cards=cards,
            unsure=sections.ambiguity(told, gallery),
            training=trained,
            rival=None if rival is None else rival.summary(survey),
            truth=None if y is None else Truth.of(seen, y, rival),
            flat=flat,
            shown_rows=len(survey.rows),
            pictured=gallery.shape,
            colour=colour,
            data=embedded(data),
            css=Markup(own("page.css")),
            scripts=[Markup(text) for text in scripts],
            policy=policy(scripts),
        )
    )


def embedded(data: Any) -> Markup:
    """JSON that can stand inside a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(re.sub("[<>&\u2028\u2029]", lambda m: UNSAFE[m[0]], text))


def policy(scripts: tuple[str, ...]) -> str:
    """What the browser may do: run these scripts and no other, show embedded pictures, no more."""
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{found}'" for found in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )


@cache
def vendored(name: str) -> str:
    """A library without the comment that would have a browser look for its source map."""
    text = (files("pellucid.report") / "vendor" / name).read_text(encoding="utf-8")
    return re.sub(r"\n//# sourceMappingURL=\S*\s*$", "", text).strip()


@cache
def own(name: str) -> str:
    return (files("pellucid.report") / "templates" / name).read_text(encoding="utf-8").strip()


@cache
def environment() -> Environment:
    return Environment(
        loader=PackageLoader("pellucid.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def writable(path: str | PathLike[str]) -> Path:
    """``path`` if a file can be written there; worth asking before a long fit."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{target} is a directory: name a file in it, {target / 'report.html'}")
    if not target.parent.is_dir():
        raise ValueError(f"{target.parent} is not a directory: create it, or write elsewhere")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{target.parent} cannot be written to: write the report elsewhere")
    return target


def replace(target: Path, text: str) -> None:
    """The whole file or nothing."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(text.encode("utf-8", errors="replace"))
        os.replace(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ValueError(f"{target} cannot be written ({error.strerror}): try elsewhere") from error

"""The page in a real browser: what it draws, how it answers, and that nothing in it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from sklearn.cluster import KMeans, MiniBatchKMeans
from tests import browser as browsers
from tests.browser import PHONE, Visit
from tests.pages import CASES, Made, made

from pellucid.report import write_report
from pellucid.report.gallery import one_line

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]  # one process fits for all
each_case = pytest.mark.parametrize("name", CASES)

RUNS = [
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 1</script>",
    "</title></style></bdi><img src=x onerror='window.ran = 1'>",
    "\"'><svg onload='window.ran = 1'></svg><!-- ]]>",
    "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
]
HARMLESS = ["{{ 7 * 7 }}", "🦊 \u202e right to left \u2028", "שלום עולם العربية", "x" * 10_000]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if browsers.find() is None:
        browsers.absent()
    with browsers.launched() as found:
        yield found


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Each report is fitted and written once."""
    written: dict[str, Made] = {}

    def of(name: str) -> Made:
        if name not in written:
            written[name] = made(name, tmp_path_factory.mktemp("pages"))
        return written[name]

    return of


# What everyone sees --------------------------------------------------------------------------


@each_case
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_has_its_points(name: str, scheme: str, browser: Browser, report: Callable) -> None:
    page = report(name)
    with Visit(browser, page.path, color_scheme=scheme) as visit:
        assert len(visit.ask("points")["x"]) == page.n
        drawn = visit.page.evaluate("pellucid.views.map.data('points').length")
        assert drawn == page.n and set(visit.opacities()) == set(visit.ask("points")["c"])
        # Dots in every cluster's colour, as the eye would find them.
        assert min(visit.ask("inked")) > 20
        assert visit.page.locator(".chart svg path").count() > 0
        assert visit.faults == []


@each_case
def test_the_pointer_shows_a_sample_and_chooses_its_cluster(
    name: str, browser: Browser, report: Callable
) -> None:
    made = report(name)
    with Visit(browser, made.path) as visit:
        page, tip = visit.page, visit.page.locator("#tip")
        i = visit.clear()
        (x, y), points = visit.ask("places")[i], visit.ask("points")
        page.mouse.move(x, y)
        expect(tip).to_be_visible()
        row = points["row"][i]
        ids = made.shown.get("ids")
        expect(tip).to_contain_text(ids[row] if ids is not None else f"row {row}")
        expect(tip).to_contain_text(f"cluster {points['c'][i]}")
        if "texts" in made.shown:
            expect(tip).to_contain_text(made.shown["texts"][row])
        assert (tip.locator("canvas").count() == 1) == (name == "TELL on digits")
        page.mouse.click(x, y)
        cluster = points["c"][i]
        expect(page.locator("#panel h3")).to_contain_text(f"Cluster {cluster}")
        pressed = page.locator(".pick[aria-pressed=true]")
        assert pressed.get_attribute("data-cluster") == str(cluster)
        strong = {c for c, o in visit.opacities().items() if o > 0.5}
        assert strong == {cluster}
        page.mouse.click(x, y)
        expect(page.locator("#panel")).to_contain_text("No cluster is chosen")
        assert min(visit.opacities().values()) > 0.5
        page.mouse.move(2, 2)
        expect(tip).to_be_hidden()
        assert visit.faults == []


def test_the_map_is_dragged_and_zoomed(browser: Browser, report: Callable) -> None:
    with Visit(browser, report("KMeans on wine").path) as visit:
        page, i = visit.page, visit.clear()
        before = np.array(visit.ask("places"))
        x, y = before[i]
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y + 10)
        page.mouse.move(x + 60, y + 20)
        page.mouse.up()
        visit.settle()
        after = np.array(visit.ask("places"))
        np.testing.assert_allclose(after - before, np.tile([60, 20], (len(before), 1)), atol=0.5)
        expect(page.locator("#panel")).to_contain_text("No cluster is chosen")  # it was no click
        page.mouse.move(*after[i])
        expect(page.locator("#tip")).to_contain_text(f"row {visit.ask('points')['row'][i]}")
        page.get_by_role("button", name="Zoom in").click()
        visit.settle()
        near = np.array(visit.ask("places"))
        assert np.ptp(near[:, 0]) == pytest.approx(np.ptp(before[:, 0]) / 0.6, rel=1e-3)
        page.get_by_role("button", name="Show everything").click()
        visit.settle()
        moved = np.array(visit.ask("places")) - before
        np.testing.assert_allclose(moved - moved[0], 0, atol=0.5)  # the page may have scrolled
        assert visit.faults == []


def test_the_picture_of_a_sample_is_its_own(browser: Browser, report: Callable) -> None:
    made = report("TELL on digits")
    with Visit(browser, made.path) as visit:
        i = visit.clear()
        visit.page.mouse.move(*visit.ask("places")[i])
        seen = visit.ask("picture")
        digit = made.X[visit.ask("points")["row"][i]]
        np.testing.assert_allclose(seen, 255 * digit.ravel() / 16, atol=9)  # sixteen levels


@each_case
def test_search_filters_and_sorting_sorts(name: str, browser: Browser, report: Callable) -> None:
    made = report(name)
    with Visit(browser, made.path) as visit:
        page, cards = visit.page, visit.page.locator(".cluster:visible")
        told = [(card.text_content() or "").lower() for card in cards.all()]
        assert len(told) == made.k
        for query in page.locator(".cluster .name").all_inner_texts():
            with_it = [all(word in text for word in query.split()) for text in told]
            if sum(with_it) < made.k:
                break
        page.locator("#search").fill(query.upper())
        expect(page.locator("#found")).to_have_text(f"{sum(with_it)} of {made.k}")
        every = page.locator(".cluster").all()
        assert [card.is_visible() for card in every] == with_it and 0 < sum(with_it) < made.k
        page.locator("#search").fill("no such word")
        expect(page.locator("#nothing")).to_be_visible()
        page.locator("#search").fill("")
        page.locator("#sort").select_option("size")
        sizes = [int(card.get_attribute("data-size") or 0) for card in cards.all()]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) == made.k
        assert visit.faults == []


@each_case
def test_both_colour_schemes_can_be_read(name: str, browser: Browser, report: Callable) -> None:
    with Visit(browser, report(name).path, color_scheme="light") as visit:
        light = looks(visit)
        visit.page.locator("#scheme").click()
        dark = looks(visit)
        assert light["page"] > 0.8 and dark["page"] < 0.05
        for seen in (light, dark):
            for ink in ("ink", "soft", "axis"):
                assert contrast(seen[ink], seen["card"]) > 4.5, (ink, seen)
        visit.page.locator("#scheme").click()
        assert looks(visit) == light and visit.faults == []
    with Visit(browser, report(name).path, color_scheme="dark") as visit:
        assert looks(visit) == dark  # the system's choice looks as the button's


def looks(visit: Visit) -> dict[str, float]:
    """Luminances of the page, of a card, and of what is written on it."""
    visit.settle()
    return {name: luminance(colour) for name, colour in visit.ask("colours").items()}


def luminance(colour: str) -> float:
    rgb = np.array([float(x) for x in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


@each_case
def test_on_a_phone(name: str, browser: Browser, report: Callable) -> None:
    with Visit(browser, report(name).path, **PHONE) as visit:
        page = visit.page
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == [390, 390]
        assert page.locator("#map canvas").bounding_box()["width"] > 300
        i = visit.clear()
        page.touchscreen.tap(*visit.ask("places")[i])
        cluster = visit.ask("points")["c"][i]
        expect(page.locator("#panel h3")).to_contain_text(f"Cluster {cluster}")
        expect(page.locator("#tip")).to_contain_text(f"cluster {cluster}")
        for button in page.locator("button:visible").all():
            assert button.bounding_box()["height"] >= 24
        page.locator(".cluster:visible .show").first.tap()
        expect(page.locator("#map")).to_be_in_viewport()
        assert visit.faults == []


# Without a mouse, without scripts, on paper --------------------------------------------------


@each_case
def test_keys_reach_and_work_everything(name: str, browser: Browser, report: Callable) -> None:
    made = report(name)
    with Visit(browser, made.path) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = set()
        for _ in range(page.locator("a, button, input, select, summary, [tabindex]").count() + 2):
            reached.add(visit.ask("focused"))
            page.keyboard.press("Tab")
        assert {"scheme", "search", "sort"} <= reached and "invisible" not in reached
        assert {f"pick {j}" for j in set(visit.ask("points")["c"])} <= reached
        page.locator(".pick:enabled").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#panel h3")).to_contain_text("Cluster")
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_contain_text("No cluster is chosen")
        page.locator(".pick:enabled").first.focus()
        page.keyboard.press("Space")
        expect(page.locator("#panel h3")).to_contain_text("Cluster")
        assert visit.faults == []


@each_case
def test_everything_has_a_name_for_those_who_cannot_see_it(
    name: str, browser: Browser, report: Callable
) -> None:
    with Visit(browser, report(name).path) as visit:
        assert visit.ask("nameless") == []
        levels = visit.page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1]))"
        )
        assert levels.count(1) == 1 and max(np.diff(levels)) <= 1
        expect(
            visit.page.get_by_role("button", name=re.compile("Cluster 0: ")).first
        ).to_be_visible()
        expect(visit.page.get_by_role("main")).to_be_visible()


def test_without_scripts_everything_but_the_map_is_there(
    browser: Browser, report: Callable
) -> None:
    made = report("TELL on digits")
    with Visit(browser, made.path, ready=False, java_script_enabled=False) as visit:
        assert visit.page.locator(".cluster:visible").count() == made.k
        expect(visit.page.locator("noscript p")).to_be_visible()


def test_on_paper(browser: Browser, report: Callable, tmp_path: Path) -> None:
    with Visit(browser, report("TELL on digits").path, color_scheme="dark") as visit:
        visit.page.emulate_media(media="print")
        assert visit.page.locator(".bar, .tools, #scheme").locator("visible=true").count() == 0
        seen = looks(visit)
        assert seen["card"] > 0.9 and contrast(seen["axis"], 1) > 4.5  # on white paper
        assert visit.page.pdf().count(b"/Type /Page\n") >= 2


# What people pass in -------------------------------------------------------------------------


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[KMeans, np.ndarray, Path]:
    X = np.random.default_rng(0).random((40, 3))
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    path = tmp_path_factory.mktemp("plain") / "page.html"
    return est, X, write_report(est, X, path, title="TITLE", ids=range(40), texts=["a"] * 40)


@pytest.mark.parametrize("text", RUNS + HARMLESS, ids=range(len(RUNS + HARMLESS)))
def test_hostile_text_is_shown_and_never_runs(
    text: str, browser: Browser, plain: tuple, tmp_path: Path
) -> None:
    est, X, _ = plain
    rows = [f"{i} {text}" for i in range(40)]
    given = {"feature_names": [text, "b", "c"], "texts": rows, "ids": rows, "y": rows}
    given["images"] = np.random.default_rng(0).random((40, 4, 4))
    path = write_report(est, X, tmp_path / "page.html", title=text, **given)
    for how in ({}, PHONE):
        with Visit(browser, path, **how) as visit:
            page, i = visit.page, visit.clear()
            page.mouse.move(*visit.ask("places")[i])
            expect(page.locator("#tip p")).to_contain_text(
                one_line(rows[visit.ask("points")["row"][i]], 20)[:-1]
            )
            page.mouse.click(*visit.ask("places")[i])
            page.locator("#search").fill(text[:50])
            visit.settle()
            assert page.evaluate("window.ran") is None and visit.faults == []
            assert page.locator("main iframe, main script, main img[onerror]").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("place", "text"),
    [*(("TITLE</h1>", text) for text in RUNS), ('"texts":["a"', RUNS[1])],
    ids=range(len(RUNS) + 1),
)
def test_a_text_that_ran_would_be_noticed(
    place: str, text: str, browser: Browser, plain: tuple, tmp_path: Path
) -> None:
    """The same page as if nothing were escaped: with the policy and without it."""
    source = plain[2].read_text()
    assert source.count(place) == 1
    page = tmp_path / "page.html"
    page.write_text(source.replace(place, place[:-5] + text + place[-5:]))
    with Visit(browser, page, ready=False) as visit:
        assert visit.page.evaluate("window.ran") is None  # the policy is a second wall
        assert any("Content Security Policy" in fault for fault in visit.faults)
    page.write_text(re.sub('<meta http-equiv="Content-Security[^>]*>', "", page.read_text()))
    with Visit(browser, page, ready=False) as visit:
        assert visit.page.evaluate("window.ran") == 1 or any("dialog" in f for f in visit.faults)


def test_a_request_would_be_noticed(browser: Browser, plain: tuple, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    source = re.sub('<meta http-equiv="Content-Security[^>]*>', "", plain[2].read_text())
    page.write_text(source.replace("<main>", '<main><img src="http://127.0.0.1:9/x.png" alt="">'))
    with Visit(browser, page) as visit:
        assert "request: http://127.0.0.1:9/x.png" in visit.faults


# Clusterings out of the ordinary -------------------------------------------------------------


def few_centres(k: int, X: np.ndarray) -> KMeans:
    return KMeans(k, n_init=1, random_state=0).fit(X)


def empty(X: np.ndarray) -> KMeans:
    est = few_centres(3, X)
    est.cluster_centers_[1] = 1e6
    return est


def hundreds(X: np.ndarray) -> MiniBatchKMeans:
    est = MiniBatchKMeans(250, init=X[:250], n_init=1, batch_size=8192, random_state=0)
    return est.partial_fit(X)


ODD = {
    "one cluster": (lambda X: few_centres(1, X), np.random.default_rng(0).random((30, 3)), 1),
    "two rows": (lambda X: few_centres(2, X), np.eye(2), 2),
    "one feature": (lambda X: few_centres(2, X), np.arange(20.0)[:, None], 2),
    "an empty cluster": (empty, np.random.default_rng(0).random((30, 3)), 3),
    "constant features": (lambda X: few_centres(2, X), np.eye(3)[np.arange(9) % 2], 2),
    "250 clusters": (hundreds, np.random.default_rng(0).random((300, 3)), 200),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_clusterings_open_too(name: str, browser: Browser, tmp_path: Path) -> None:
    fit, X, cards = ODD[name]
    path = write_report(fit(X), X, tmp_path / "page.html")
    for how in ({}, PHONE):
        with Visit(browser, path, **how) as visit:
            assert visit.page.locator(".cluster:visible").count() == cards
            assert len(visit.ask("points")["x"]) == len(X)
            visit.page.locator(".pick:enabled").last.click()
            expect(visit.page.locator("#panel h3")).to_be_visible()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert visit.faults == []


# Where there is no browser -------------------------------------------------------------------


def test_a_missing_browser_is_skipped_here_and_fails_where_changes_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PELLUCID_CHROMIUM", raising=False)
    assert browsers.find() is None
    for ci, outcome in [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]:
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match="apt-get install chromium"):
            browsers.absent()

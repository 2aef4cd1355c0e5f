/* What the tests ask of an open page; put beside the page's own script before that runs. */
window.asked = (() => {
  const canvas = () => document.querySelector("#map canvas");
  const pixels = (c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data;

  /* Places of the map in the window. */
  function placed(pairs) {
    const view = pellucid.views.map;
    const [x, y] = [view.scale("x"), view.scale("y")];
    const box = canvas().getBoundingClientRect();
    return pairs.map(([a, b]) => [box.x + x(a), box.y + y(b)]);
  }

  return {
    points: () => ({ ...pellucid.points, atlas: null }),
    places: () => placed(pellucid.points.x.map((x, i) => [x, pellucid.points.y[i]])),
    centres: () => placed(pellucid.points.centres),

    /* How strongly the points of each cluster are drawn, as Vega's scene has it. */
    opacities() {
      const found = {};
      const walk = (item) => {
        if (item.datum?.i !== undefined) found[item.datum.c] = item.opacity;
        for (const below of item.items ?? []) walk(below);
      };
      walk(pellucid.views.map.scenegraph().root);
      return Object.entries(found);
    },

    /* Pixels of the map in the colour of each cluster's pentagon. */
    inked() {
      const seen = pixels(canvas());
      const count = (hex) => {
        const want = hex.match(/\w\w/g).map((x) => parseInt(x, 16));
        let found = 0;
        for (let i = 0; i < seen.length; i += 4) {
          const off = want.reduce((sum, v, c) => sum + Math.abs(v - seen[i + c]), 0);
          found += seen[i + 3] > 128 && off < 12;
        }
        return found;
      };
      const pentagons = [...document.querySelectorAll(".pick:enabled .pentagon path")];
      return pentagons.map((path) => count(path.getAttribute("fill")));
    },

    /* Brightness of the picture beside the pointer. */
    picture: () => [...pixels(document.querySelector("#tip canvas"))].filter((_, i) => i % 4 === 0),

    /* Elements that a screen reader has no name for. */
    nameless() {
      const named = (e) =>
        e.alt || e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length;
      const all = document.querySelectorAll("img, button, a, input, select, [role=img]");
      return [...all].filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
    },

    /* What has the focus, and whether it can be seen that it does. */
    focused() {
      const at = document.activeElement;
      if (at !== document.body && getComputedStyle(at).outlineStyle === "none") return "invisible";
      return at.classList.contains("pick") ? `pick ${at.dataset.cluster}` : at.id;
    },

    /* Colours of the page, of a card, and of what is written on it. */
    colours() {
      const of = (name, what) => getComputedStyle(document.querySelector(name))[what];
      return {
        page: of("body", "backgroundColor"), card: of(".card", "backgroundColor"),
        ink: of(".cluster h3", "color"), soft: of(".cluster .soft", "color"),
        axis: of(".chart text[fill]", "fill"),
      };
    },
  };
})();

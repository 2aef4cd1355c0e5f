"use strict";
/* The page's own script. Words reach the document through textContent alone. */
(() => {
  const byId = (id) => document.getElementById(id);
  const { points, charts } = JSON.parse(byId("data").textContent);
  const root = document.documentElement;
  const cards = [...document.querySelectorAll(".cluster")];
  const views = {};
  // How near is near enough, in pixels.
  const [MOUSE, FINGER, PENTAGON] = [7, 18, Math.sqrt(charts.map.layer[1].mark.size / Math.PI)];
  const WORD = 130; // pixels for a name in a legend
  const seen = { x0: 0, x1: 1, y0: 0, y1: 1 };
  let chosen = -1;

  function element(name, text, parent) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  // Colours of the scheme that is showing -----------------------------------------------------

  function shade(name) {
    const probe = element("span", "", document.body);
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function config() {
    const [ink, soft, rule] = ["ink", "soft", "rule"].map(shade);
    const words = { labelColor: soft, titleColor: soft, labelFontSize: 12, titleFontSize: 12 };
    return {
      background: null,
      font: getComputedStyle(document.body).fontFamily,
      view: { stroke: null },
      axis: { ...words, labelFlush: false, titleFontWeight: 400, gridColor: rule, domainColor: rule, tickColor: rule },
      legend: { ...words, labelColor: ink },
      bar: { color: shade("down") },
      range: { category: [shade("down"), shade("up"), "#2ac18f", "#935c77", "#cea722", "#73b6bf"] },
    };
  }

  function render(box, spec, renderer) {
    const compiled = vegaLite.compile(spec, { config: config() }).spec;
    const runtime = vega.parse(compiled, null, { ast: true });
    const expr = vegaInterpreter.expressionInterpreter;
    return new vega.View(runtime, { expr, renderer, container: box, hover: false, logLevel: vega.Error });
  }

  // The map -----------------------------------------------------------------------------------

  function drawMap() {
    const box = byId("map");
    views.map?.finalize();
    const view = (views.map = render(box, charts.map, "canvas"));
    const rows = points.x.map((x, i) => ({ x, y: points.y[i], c: points.c[i], i }));
    view.data("points", rows);
    view.data("centres", points.centres.map(([x, y, c]) => ({ x, y, c })));
    view.signal("ink", shade("card")).signal("chosen", chosen);
    fit();
  }

  function size() {
    const box = byId("map");
    return [box.clientWidth, box.clientHeight];
  }

  /* Everything, at one scale in both directions. */
  function fit() {
    const [w, h] = size();
    const ends = (values) => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const [[left, right], [low, high]] = [ends(points.x), ends(points.y)];
    const scale = 1.08 * Math.max((right - left || 1) / w, (high - low || 1) / h);
    const [cx, cy] = [(left + right) / 2, (low + high) / 2];
    look(cx - (scale * w) / 2, cx + (scale * w) / 2, cy - (scale * h) / 2, cy + (scale * h) / 2);
  }

  function look(x0, x1, y0, y1) {
    Object.assign(seen, { x0, x1, y0, y1 });
    const [w, h] = size();
    const view = views.map.width(w).height(h);
    for (const [name, value] of Object.entries(seen)) view.signal(name, value);
    return view.runAsync();
  }

  /* By a factor about a place that is given as shares of the width and the height. */
  function zoom(factor, atX = 0.5, atY = 0.5) {
    if (!factor) return fit();
    const x = seen.x0 + atX * (seen.x1 - seen.x0);
    const y = seen.y1 - atY * (seen.y1 - seen.y0);
    const ends = [x, seen.x0, x, seen.x1, y, seen.y0, y, seen.y1];
    const [x0, x1, y0, y1] = [0, 2, 4, 6].map((i) => ends[i] + factor * (ends[i + 1] - ends[i]));
    return look(x0, x1, y0, y1);
  }

  /* The pentagon or else the sample that is nearest to the pointer, within so many pixels. */
  function under(event, reach) {
    const at = byId("map").getBoundingClientRect();
    const [w, h] = size();
    const [perX, perY] = [w / (seen.x1 - seen.x0), h / (seen.y1 - seen.y0)];
    const [left, top] = [event.clientX - at.left, event.clientY - at.top];
    const gap = (x, y) => ((x - seen.x0) * perX - left) ** 2 + ((seen.y1 - y) * perY - top) ** 2;
    const centre = points.centres.find(([x, y]) => gap(x, y) < PENTAGON ** 2);
    if (centre) return { c: centre[2] };
    const nearest = { gap: reach ** 2 };
    points.x.forEach((x, i) => {
      const here = gap(x, points.y[i]);
      if (here <= nearest.gap) Object.assign(nearest, { gap: here, i, c: points.c[i] });
    });
    return nearest;
  }

  let grip = null;
  let dragged = false;

  /* While it is dragged the picture moves as it is; all points are drawn again at the end. */
  async function release(box) {
    const held = grip;
    grip = null;
    if (!held || !dragged) return;
    const [w, h] = size();
    const [mx, my] = [(held.dx * (held.x1 - held.x0)) / w, (held.dy * (held.y1 - held.y0)) / h];
    await look(held.x0 - mx, held.x1 - mx, held.y0 + my, held.y1 + my);
    box.querySelector("canvas").style.transform = "";
  }

  function steer(box) {
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const at = box.getBoundingClientRect();
      const by = Math.exp(0.002 * (event.deltaY || event.deltaX));
      zoom(by, (event.clientX - at.left) / at.width, (event.clientY - at.top) / at.height);
    }, { passive: false });
    box.addEventListener("pointerdown", (event) => {
      dragged = false;
      if (event.pointerType === "mouse" && event.button === 0) grip = { x: event.clientX, y: event.clientY, ...seen };
    });
    window.addEventListener("pointerup", () => release(box));
    window.addEventListener("pointermove", (event) => {
      if (!grip) return;
      Object.assign(grip, { dx: event.clientX - grip.x, dy: event.clientY - grip.y });
      dragged ||= Math.hypot(grip.dx, grip.dy) >= 5;
      if (!dragged) return;
      hideTip();
      box.querySelector("canvas").style.transform = `translate(${grip.dx}px, ${grip.dy}px)`;
    });
    box.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") hover(event, under(event, MOUSE).i);
    });
    box.addEventListener("click", (event) => {
      const { c, i } = under(event, event.pointerType === "touch" ? FINGER : MOUSE);
      if (dragged || c === undefined) return;
      choose(c === chosen ? -1 : c);
      hover(event, i);
    });
    box.addEventListener("pointerleave", hideTip);
    window.addEventListener("scroll", hideTip, { passive: true });
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
    }
  }

  // The sample under the pointer --------------------------------------------------------------

  const tip = byId("tip");
  let pictures = null;

  function hideTip() {
    tip.hidden = true;
  }

  function showTip(event) {
    tip.hidden = false;
    const { offsetWidth: w, offsetHeight: h } = tip;
    const x = event.clientX + 16 + w > innerWidth ? event.clientX - 16 - w : event.clientX + 16;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY - h / 2, innerHeight - h - 4))}px`;
  }

  function hover(event, i) {
    if (i === undefined || grip) return hideTip();
    tip.replaceChildren();
    picture(i);
    const head = element("b", undefined, tip);
    element("i", "", head).style.background = charts.map.layer[0].encoding.color.scale.range[points.c[i]];
    const name = element("bdi", points.ids ? points.ids[i] : `row ${points.row[i]}`, head);
    name.dir = "auto";
    const next = points.second[i] < 0 ? "" : `, next to ${points.second[i]} (margin ${points.margin[i]})`;
    element("div", `cluster ${points.c[i]}${next}`, tip).className = "soft num";
    if (points.texts) element("p", points.texts[i], tip).dir = "auto";
    if (points.top) features(i);
    showTip(event);
  }

  function features(i) {
    const row = points.top.rows[i];
    const m = row.length / 2;
    for (let f = 0; f < m; f += 1) {
      const line = element("div", undefined, tip);
      line.className = "num";
      element("bdi", points.top.names[row[f]], line);
      element("span", ` ${row[m + f]}`, line).className = "soft";
    }
  }

  function picture(i) {
    const atlas = points.atlas;
    if (!atlas || i >= atlas.tiles) return;
    const canvas = element("canvas", undefined, tip);
    [canvas.width, canvas.height] = [atlas.width, atlas.height];
    const [x, y] = [(i % atlas.columns) * atlas.width, Math.floor(i / atlas.columns) * atlas.height];
    canvas.getContext("2d").drawImage(pictures, x, y, atlas.width, atlas.height, 0, 0, atlas.width, atlas.height);
  }

  // One cluster -------------------------------------------------------------------------------

  const hint = byId("panel").firstElementChild;

  function choose(cluster) {
    chosen = cluster;
    hideTip();
    views.map.signal("chosen", chosen).runAsync();
    for (const button of document.querySelectorAll(".pick")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.cluster) === chosen));
    }
    for (const card of cards) card.classList.toggle("chosen", Number(card.dataset.cluster) === chosen);
    open(cards.find((card) => Number(card.dataset.cluster) === chosen));
  }

  /* A copy of the card's first half, beside the map. */
  function open(card) {
    const panel = byId("panel");
    panel.replaceChildren();
    panel.scrollTop = 0;
    if (chosen < 0) return panel.append(hint);
    if (!card) {
      element("p", `Cluster ${chosen} has no card.`, panel).className = "soft";
      return;
    }
    const head = element("h3", undefined, panel);
    head.append(...[...card.querySelector("h3").childNodes].map((node) => node.cloneNode(true)));
    const whole = element("a", "Whole card", head);
    whole.href = `#${card.id}`;
    whole.className = "chip whole";
    const parts = [card.querySelector(".brief"), card.querySelector(".exemplars")];
    for (const part of parts) if (part) panel.append(part.cloneNode(true));
  }

  function search() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      card.hidden = !words.every((word) => text.includes(word));
      found += !card.hidden;
    }
    byId("found").textContent = `${found} of ${cards.length}`;
    byId("nothing").hidden = found > 0;
  }

  function sort() {
    const key = byId("sort").value;
    const value = (card) => (key === "id" ? -Number(card.dataset.cluster) : Number(card.dataset[key]));
    byId("cards").append(...[...cards].sort((a, b) => value(b) - value(a)));
  }

  // The other charts --------------------------------------------------------------------------

  function drawCharts() {
    for (const [name, spec] of Object.entries(charts)) {
      const box = byId(name);
      if (name === "map" || !box) continue;
      views[name]?.finalize();
      const legend = spec.encoding.color?.legend;
      if (legend) legend.columns = Math.max(1, Math.floor(box.clientWidth / WORD));
      const view = (views[name] = render(box, { ...spec, width: 10, autosize: { type: "fit", contains: "padding" } }, "svg"));
      view.tooltip((_, event, item, value) => (value ? chartTip(event, value) : hideTip()));
      view.width(box.clientWidth).height(240).runAsync();
    }
  }

  function chartTip(event, value) {
    tip.replaceChildren();
    for (const [name, number] of Object.entries(value)) {
      element("div", `${name}: ${Number.isNaN(Number(number)) ? number : Number(Number(number).toPrecision(5))}`, tip).className = "num";
    }
    showTip(event);
  }

  // Light and dark ----------------------------------------------------------------------------

  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = byId("scheme");

  function isDark() {
    return (root.style.colorScheme || (system.matches ? "dark" : "light")) === "dark";
  }

  function paint() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    drawMap();
    drawCharts();
  }

  function listen() {
    button.addEventListener("click", () => {
      root.style.colorScheme = isDark() ? "light" : "dark";
      paint();
    });
    system.addEventListener("change", paint);
    for (const pick of document.querySelectorAll(".pick, .show")) {
      pick.addEventListener("click", () => {
        const cluster = Number(pick.dataset.cluster);
        const again = pick.classList.contains("pick") && cluster === chosen;
        choose(again ? -1 : cluster);
        if (pick.classList.contains("show")) byId("map-section").scrollIntoView();
      });
    }
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      hideTip();
      if (chosen >= 0) choose(-1);
    });
    byId("search").addEventListener("input", search);
    byId("sort").addEventListener("change", sort);
    let waiting = 0;
    let width = innerWidth;
    window.addEventListener("resize", () => {
      if (innerWidth === width) return; // a phone's address bar comes and goes
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => { fit(); drawCharts(); }, 120);
    });
  }

  if (points.atlas) {
    pictures = new Image();
    pictures.src = points.atlas.src;
  }
  paint();
  steer(byId("map"));
  listen();
  window.pellucid = { views, points, choose };
  root.dataset.ready = String(Math.round(performance.now()));
})();

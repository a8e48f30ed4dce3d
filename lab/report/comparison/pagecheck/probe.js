"use strict";
// What a person would look for, asked of the page from within. The answers are written
// into the document, where the program that opened the page reads them.
(() => {
  const root = document.documentElement, wrong = [];
  const check = (ok, what) => { if (!ok) wrong.push(what); };

  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map((v) => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
  };
  const readable = (selector, property, background) => {
    for (const e of document.querySelectorAll(selector)) {
      const ratio = contrast(getComputedStyle(e)[property], background);
      check(ratio >= 4.5, `${selector}: contrast ${ratio.toFixed(1)}, want 4.5`);
      return;
    }
  };

  check(root.dataset.error === undefined, "a script failed: " + root.dataset.error);
  check(root.dataset.broken === undefined, "a text of the document was run as a script");
  check(performance.getEntriesByType("resource").length === 0, "the page loaded something");
  check(root.scrollWidth <= innerWidth, `the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);

  const boxes = [...document.querySelectorAll(".chart")];
  check(boxes.length > 0 && Number(root.dataset.drawn) === boxes.length, `${root.dataset.drawn} of ${boxes.length} timelines were drawn`);
  for (const box of boxes) {
    const svg = box.querySelector("svg"), name = box.getAttribute("aria-label").slice(0, 60);
    check(svg && svg.querySelectorAll("*").length > 50, name + ": hardly anything was drawn");
    if (!svg) continue;
    check(!/NaN|Infinity|undefined|null/.test(svg.outerHTML), name + ": something was drawn nowhere");
    const width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
    check(Math.abs(width - box.clientWidth) <= 1, `${name}: drawn ${width} wide in a box of ${box.clientWidth}`);
    for (const text of svg.querySelectorAll("text")) {
      const b = text.getBBox();
      check(b.x >= -1 && b.x + b.width <= width + 1 && b.y >= -1 && b.y + b.height <= height + 1, `${name}: "${text.textContent}" is cut off`);
    }
  }
  for (const article of document.querySelectorAll("article")) {
    const begin = [...article.querySelectorAll("rect.shade")].map((r) => Number(r.getAttribute("x")));
    check(Math.max(...begin) - Math.min(...begin) < 0.5, `${article.id}: the clients' times do not share an axis: ${begin.join(", ")}`);
  }

  const paper = getComputedStyle(document.body).backgroundColor;
  for (const s of ["h1", ".lede", ".note", ".summary .bad", ".clients dd", "summary", ".what", "footer"]) readable(s, "color", paper);
  const shade = document.querySelector("rect.shade");
  if (shade) {
    for (const s of ["svg text", "svg text.strong"]) readable(s, "fill", getComputedStyle(shade).fill);
  }
  const ink = getComputedStyle(root).getPropertyValue("--band-ink");
  if (ink) {
    const swatch = document.createElement("i");
    document.body.append(swatch);
    const resolved = (v) => { swatch.style.color = v; return getComputedStyle(swatch).color; };
    for (const state of ["serving", "suspected", "slow", "degraded", "lagging", "restricted", "draining", "not-serving", "dead", "other"]) {
      const ratio = contrast(resolved("var(--band-ink)"), resolved(`var(--state-${state})`));
      check(ratio >= 4.5, `a band of the state ${state}: contrast ${ratio.toFixed(1)}, want 4.5`);
    }
    swatch.remove();
  }

  const first = boxes[0];
  if (first) {
    const article = first.closest("article"), readout = article.querySelector(".readout");
    const press = (key) => first.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const shown = () => article.querySelectorAll('line.cursor[visibility="visible"]').length;
    const beside = article.querySelectorAll(".chart").length;
    press("ArrowRight");
    const text = readout.textContent;
    check(text.split("\n").length === 1 + beside, "the arrow key reads out: " + JSON.stringify(text));
    check(shown() === beside, `${shown()} of ${beside} cursors are shown`);
    press("ArrowRight");
    check(readout.textContent !== text, "the arrow key does not move on");
    press("Escape");
    check(readout.textContent === "" && shown() === 0, "Escape does not clear");
    const r = first.getBoundingClientRect();
    first.dispatchEvent(new PointerEvent("pointermove", { clientX: r.left + r.width / 2, clientY: r.top + 20, bubbles: true }));
    check(readout.textContent !== "", "pointing reads nothing out");
    press("Escape");
  }
  for (const button of document.querySelectorAll(".legend button")) {
    const name = button.dataset.hides;
    const drawn = [...document.querySelectorAll(`svg .${name}`)];
    button.click();
    check(button.getAttribute("aria-pressed") === "false", name + ": the button does not say that it is off");
    check(drawn.every((e) => getComputedStyle(e).display === "none"), name + ": is shown though it is off");
    button.click();
    check(drawn.every((e) => getComputedStyle(e).display !== "none"), name + ": is not shown again");
  }

  root.dataset.probe = JSON.stringify({
    charts: boxes.length, dark: matchMedia("(prefers-color-scheme: dark)").matches, width: innerWidth, wrong,
  });
})();

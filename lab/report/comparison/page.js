"use strict";
(() => {
  const root = document.documentElement;
  addEventListener("error", (e) => { root.dataset.error = e.message; });

  const doc = JSON.parse(document.getElementById("data").textContent);
  const SVG = document.getElementById("pattern").namespaceURI;
  const KINDS = [
    ["linearizable_get", "linearizable gets"], ["serializable_get", "serializable gets"], ["put", "puts"], ["txn", "txns"],
  ];
  const OUTCOMES = ["late", "failed", "unknown"];
  const HEAD = 16, LABEL = 13, AREA = 28, LANE = 3, LAG = 56, MARGIN = 30, BAND = 12, AXIS = 18, SPACE = 6;
  const DECADES = [10, 100, 1000, 10000, 100000];

  // el makes an SVG element. Text never goes through markup.
  const el = (parent, name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    parent.append(e);
    return e;
  };
  const round = (v) => Math.round(v * 10) / 10;
  const words = (ms) => {
    if (ms === 0) return "0";
    if (ms < 9.95) return ms.toFixed(1) + " ms";
    if (ms < 999.5) return ms.toFixed(0) + " ms";
    return (ms / 1000).toFixed(ms < 9995 ? 2 : 1) + " s";
  };

  // colorOf returns the colour of a state of a member.
  const colorOf = (state) => {
    const name = "--state-" + state.toLowerCase().replace(/[^a-z]+/g, "-");
    return `var(${getComputedStyle(root).getPropertyValue(name) === "" ? "--state-other" : name})`;
  };

  // frameOf returns what the clients' timelines of a fault have in common: their axes.
  const frameOf = (fault) => {
    const runs = doc.clients.map((c) => c.runs[fault]).filter(Boolean);
    const frame = { from: Infinity, to: -Infinity, most: {}, lag: 100, members: doc.setup.members };
    for (const { timeline: t } of runs) {
      frame.from = Math.min(frame.from, t.from_ms);
      frame.to = Math.max(frame.to, t.from_ms + t.lag_ms.length * doc.bucket_ms);
      for (const [kind] of KINDS) {
        frame.most[kind] = t.calls[kind].completed.reduce((a, b) => Math.max(a, b), frame.most[kind] || 1);
      }
      frame.lag = t.lag_ms.reduce((a, b) => Math.max(a, b), frame.lag);
    }
    return frame;
  };

  class Chart {
    constructor(box) {
      this.box = box;
      this.client = doc.clients[+box.dataset.client];
      this.run = this.client.runs[+box.dataset.fault];
      this.frame = frameOf(+box.dataset.fault);
      this.article = box.closest("article");
    }

    x(ms) { return (ms - this.frame.from) / (this.frame.to - this.frame.from) * this.width; }
    at(bucket) { return this.run.timeline.from_ms + bucket * doc.bucket_ms; }
    bucketAt(ms) {
      const i = Math.floor((ms - this.run.timeline.from_ms) / doc.bucket_ms);
      return i >= 0 && i < this.run.timeline.lag_ms.length ? i : -1;
    }

    draw() {
      this.width = Math.max(this.box.clientWidth, 200);
      this.height = HEAD + KINDS.length * (LABEL + AREA + OUTCOMES.length * (LANE + 1) + SPACE) + LABEL + LAG + SPACE +
        LABEL + MARGIN + SPACE + LABEL + Math.max(this.frame.members, 2) * BAND + SPACE + AXIS;
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      svg.setAttribute("aria-hidden", "true");
      this.backdrop(svg);
      let y = HEAD;
      for (const [kind, name] of KINDS) y = this.calls(svg, y, kind, name);
      y = this.lag(svg, y);
      y = this.margin(svg, y);
      y = this.bands(svg, y);
      this.axis(svg, y);
      this.cursor = el(svg, "line", { class: "cursor", y1: HEAD, y2: this.height - AXIS, visibility: "hidden" });
      this.box.replaceChildren(svg);
    }

    // backdrop shades the fault and marks each new leader.
    backdrop(svg) {
      const bottom = this.height - AXIS, heal = this.x(this.run.heal_ms);
      el(svg, "rect", { class: "shade", x: round(this.x(0)), y: HEAD, width: round(heal - this.x(0)), height: bottom - HEAD });
      for (const x of [this.x(0), heal]) el(svg, "line", { class: "edge", x1: round(x), x2: round(x), y1: HEAD, y2: bottom });
      let free = -Infinity;
      const label = (x, text) => {
        const width = text.length * 5.6 + 6, start = Math.min(x, this.width - width);
        if (start < free) return;
        el(svg, "text", { x: round(start), y: HEAD - 5 }, text);
        free = start + width;
      };
      label(this.x(0), "fault");
      for (const m of this.run.moments) {
        if (m.leader === "") continue;
        const x = round(this.x(m.at_ms));
        el(svg, "line", { class: "leader", x1: x, x2: x, y1: HEAD - 3, y2: bottom });
        label(x, m.leader + " leads");
      }
      label(heal, "healed");
    }

    title(svg, y, left, right) {
      el(svg, "text", { class: "strong", x: 0, y: y + 10 }, left);
      if (right) el(svg, "text", { x: this.width, y: y + 10, "text-anchor": "end" }, right);
    }

    // calls draws one kind of call: completed ones as an area, the others as marks in a
    // lane each below it.
    calls(svg, y, kind, name) {
      const t = this.run.timeline, calls = t.calls[kind], most = this.frame.most[kind];
      const figures = this.run.figures.calls[kind];
      this.title(svg, y, name, Math.round(figures.completed_percent) + " %");
      const base = y + LABEL + AREA;
      el(svg, "line", { class: "grid", x1: 0, x2: this.width, y1: base + .5, y2: base + .5 });
      let d = `M${round(this.x(t.from_ms))} ${base}`;
      calls.completed.forEach((n, i) => {
        const top = round(base - AREA * Math.min(n / most, 1));
        d += `L${round(this.x(this.at(i)))} ${top}H${round(this.x(this.at(i + 1)))}`;
      });
      el(svg, "path", { class: "completed", d: `${d}V${base}Z` });
      const usual = this.client.healthy_rate[kind] * doc.bucket_ms / 1000;
      if (usual > 0) {
        const level = round(base - AREA * Math.min(usual / most, 1));
        el(svg, "line", { class: "usual", x1: 0, x2: this.width, y1: level, y2: level });
      }
      OUTCOMES.forEach((outcome, lane) => calls[outcome].forEach((n, i) => {
        if (n > 0) this.mark(svg, outcome, i, base + 2 + lane * (LANE + 1), n);
      }));
      return base + OUTCOMES.length * (LANE + 1) + SPACE;
    }

    mark(svg, outcome, bucket, y, n) {
      const width = Math.max(this.x(doc.bucket_ms) - this.x(0), 2.5);
      el(svg, "rect", {
        class: outcome, x: round(this.x(this.at(bucket + .5)) - width / 2), y, width: round(width), height: LANE,
        "fill-opacity": n === 1 ? .75 : 1,
      });
    }

    // lag draws how far watches are behind, on a logarithmic scale from a millisecond.
    lag(svg, y) {
      const t = this.run.timeline, base = y + LABEL + LAG, top = Math.log10(this.frame.lag * 1.3);
      this.title(svg, y, "watch delay, slowest " + words(this.run.figures.slowest_watch_ms));
      for (const decade of DECADES) {
        if (Math.log10(decade) > top) break;
        const level = Math.round(base - LAG * Math.log10(decade) / top) + .5;
        el(svg, "line", { class: "grid", x1: 0, x2: this.width, y1: level, y2: level });
        if (decade >= 100) el(svg, "text", { class: "scale", x: this.width, y: level + 9, "text-anchor": "end" }, decade < 1000 ? decade + " ms" : decade / 1000 + " s");
      }
      let d = `M${round(this.x(t.from_ms))} ${base}`;
      t.lag_ms.forEach((ms, i) => {
        const level = round(base - LAG * Math.max(Math.log10(Math.max(ms, 1)), 0) / top);
        d += `L${round(this.x(this.at(i)))} ${level}H${round(this.x(this.at(i + 1)))}`;
      });
      el(svg, "path", { class: "lag", d: `${d}V${base}Z` });
      el(svg, "line", { class: "grid", x1: 0, x2: this.width, y1: base + .5, y2: base + .5 });
      return base + SPACE;
    }

    // margin draws what was left of a lease whenever one was renewed, and the lost ones.
    margin(svg, y) {
      const t = this.run.timeline, base = y + LABEL + MARGIN, ttl = doc.setup.lease_ttl_ms;
      const lost = this.run.figures.leases_expired;
      this.title(svg, y, "time left of a lease, when renewed", lost === 0 ? "none lost" : lost + " lost");
      el(svg, "line", { class: "grid", x1: 0, x2: this.width, y1: base + .5, y2: base + .5 });
      t.margin_ms.forEach((ms, i) => {
        if (ms < 0) return;
        el(svg, "circle", { class: "margin", cx: round(this.x(this.at(i + .5))), cy: round(base - MARGIN * Math.min(ms / ttl, 1)), r: 1.5 });
      });
      t.expired.forEach((n, i) => {
        const x = round(this.x(this.at(i + .5)));
        if (n > 0) el(svg, "path", { class: "expired", d: `M${x - 3.5} ${base - 7}l7 7m0 -7l-7 7` });
      });
      return base + SPACE;
    }

    // bands draws what the client made of each member.
    bands(svg, y) {
      this.title(svg, y, "members, as the client sees them");
      y += LABEL;
      const rows = Math.max(this.frame.members, 2), bands = this.run.timeline.bands;
      if (bands.length === 0) {
        el(svg, "rect", { class: "silent", x: 0, y, width: this.width, height: rows * BAND - 1 });
        const text = this.client.states_known ? "nothing was recorded" : "this client has no view of them";
        el(svg, "text", { x: 6, y: y + rows * BAND / 2 + 3 }, text);
        return y + rows * BAND + SPACE;
      }
      const members = [...new Set(bands.map((b) => b.member))].sort().slice(0, rows);
      for (const b of bands) {
        const row = members.indexOf(b.member);
        if (row < 0) continue;
        const x = this.x(Math.max(b.from_ms, this.frame.from)), width = Math.max(this.x(b.to_ms) - x, 1);
        el(svg, "rect", {
          x: round(x), y: y + row * BAND, width: round(width), height: BAND - 1, style: "fill:" + colorOf(b.state),
        });
        const name = x < 20 ? 20 : x + 4; // beside the member's own name
        if (x + width - name > b.state.length * 5 + 4) {
          el(svg, "text", { class: "band", x: round(name), y: y + row * BAND + BAND - 3 }, b.state);
        }
      }
      members.forEach((m, row) => el(svg, "text", { class: "band", x: 3, y: y + row * BAND + BAND - 3 }, m));
      return y + rows * BAND + SPACE;
    }

    axis(svg, y) {
      const seconds = (this.frame.to - this.frame.from) / 1000;
      const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((s) => s / seconds * this.width >= 38) || 1200;
      const bottom = this.height - AXIS;
      el(svg, "line", { class: "grid", x1: 0, x2: this.width, y1: bottom + .5, y2: bottom + .5 });
      for (let s = Math.ceil(this.frame.from / 1000 / step) * step; s * 1000 <= this.frame.to; s += step) {
        const x = round(this.x(s * 1000));
        el(svg, "line", { class: "grid", x1: x, x2: x, y1: bottom, y2: bottom + 4 });
        if (x > 4 && x < this.width - 14) el(svg, "text", { x, y: bottom + 14, "text-anchor": "middle" }, s === 0 ? "0" : s + " s");
      }
    }

    point(ms) {
      const x = round(this.x(ms));
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
      this.cursor.setAttribute("visibility", "visible");
    }

    // tell says in a line what a bucket holds.
    tell(ms) {
      const i = this.bucketAt(ms), t = this.run.timeline;
      if (i < 0) return `${this.client.name}: nothing was recorded then`;
      const calls = KINDS.map(([kind, name]) => {
        const c = t.calls[kind];
        const odd = OUTCOMES.filter((o) => c[o][i] > 0).map((o) => `${c[o][i]} ${o}`);
        return `${c.completed[i]} ${name}${odd.length > 0 ? ` (${odd.join(", ")})` : ""}`;
      });
      const rest = [`watch delay ${words(t.lag_ms[i])}`];
      if (t.margin_ms[i] >= 0) rest.push(`lease renewed with ${words(t.margin_ms[i])} left`);
      if (t.expired[i] > 0) rest.push(`${t.expired[i]} leases lost`);
      for (const b of t.bands) if (b.from_ms <= ms && ms < b.to_ms) rest.push(`${b.member} ${b.state}`);
      return `${this.client.name}: ${calls.join(", ")}; ${rest.join(", ")}`;
    }
  }

  const charts = [...document.querySelectorAll(".chart")].map((box) => new Chart(box));
  const beside = (chart) => charts.filter((c) => c.article === chart.article);

  // point moves the cursor of a fault's timelines and reads them out.
  const point = (chart, ms) => {
    const { from, to } = chart.frame;
    ms = Math.min(Math.max(ms, from), to - doc.bucket_ms);
    ms = from + Math.floor((ms - from) / doc.bucket_ms) * doc.bucket_ms + doc.bucket_ms / 2;
    chart.article.cursorAt = ms;
    const group = beside(chart);
    group.forEach((c) => c.point(ms));
    chart.article.querySelector(".readout").textContent =
      `${((ms - doc.bucket_ms / 2) / 1000).toFixed(2)} s\n` + group.map((c) => c.tell(ms)).join("\n");
  };
  const clear = (chart) => {
    beside(chart).forEach((c) => c.cursor.setAttribute("visibility", "hidden"));
    chart.article.querySelector(".readout").textContent = "";
    delete chart.article.cursorAt;
  };

  for (const chart of charts) {
    chart.box.addEventListener("pointermove", (e) => {
      const r = chart.box.getBoundingClientRect(), { from, to } = chart.frame;
      point(chart, from + (e.clientX - r.left) / r.width * (to - from));
    });
    chart.box.addEventListener("keydown", (e) => {
      const now = chart.article.cursorAt === undefined ? -doc.bucket_ms : chart.article.cursorAt;
      const step = (e.shiftKey ? 20 : 1) * doc.bucket_ms;
      const target = { ArrowLeft: now - step, ArrowRight: now + step, Home: chart.frame.from, End: chart.frame.to }[e.key];
      if (e.key === "Escape") clear(chart);
      if (target === undefined) return;
      e.preventDefault();
      point(chart, target);
    });
  }

  const states = new Set(doc.clients.flatMap((c) => c.runs.flatMap((r) => r.timeline.bands.map((b) => b.state))));
  for (const state of states) {
    const item = document.createElement("li"), key = document.createElement("i");
    key.className = "key";
    key.style.background = colorOf(state);
    item.append(key, "member " + (state.length > 24 ? state.slice(0, 23) + "…" : state));
    document.querySelector(".states").append(item);
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const hidden = document.body.classList.toggle("hide-" + button.dataset.hides);
      button.setAttribute("aria-pressed", String(!hidden));
    });
  }

  const drawAll = () => {
    charts.forEach((c) => c.draw());
    root.dataset.drawn = String(charts.length);
  };
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawAll();
  });
  drawAll();
})();

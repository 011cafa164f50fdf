// The frame of a figure that a reader can move: a drawing, controls that work by keyboard, and a line of text.
// A picture stands in the page until this script replaces it, so the page is complete without it.
(() => {
  const here = document.currentScript.src.replace(/[^/]*$/, "");
  const names = ["penalty-multiplier", "algorithm-steps", "relu-envelope", "penalty-balance", "hand-phases"];

  function shape(parent, tag, attributes = {}, text = "") {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    parent.append(node);
    return node;
  }

  function html(parent, tag, attributes = {}, text = "") {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(text);
    parent.append(node);
    return node;
  }

  class Frame {
    constructor(figure, name, words, { width = 520, height = 300 } = {}) {
      const still = figure.querySelector("img");
      const box = document.createElement("div");
      box.className = "moving";
      (still.closest("a") ?? still).replaceWith(box);
      this.name = name;
      this.drawing = shape(box, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
      this.drawing.setAttribute("aria-label", words);
      this.controls = html(box, "div", { className: "moving-controls" });
      this.says = html(box, "output", { className: "moving-says" });
    }

    say(text) { this.says.textContent = text.replace(/-(?=\d)/g, "−"); }

    slider(label, { min, max, step, value, show = (v) => v.toFixed(2) }, change) {
      const holder = html(this.controls, "label", { className: "moving-slider" });
      html(holder, "span", {}, label);
      const input = html(holder, "input", { type: "range", min, max, step });
      input.value = value;
      const number = html(holder, "span", { className: "moving-number" });
      const tell = () => { number.textContent = show(Number(input.value)); };
      input.addEventListener("input", () => { tell(); change(Number(input.value)); });
      tell();
      return { input, set(v) { input.value = v; tell(); } };
    }

    button(label, press) {
      const node = html(this.controls, "button", { type: "button" }, label);
      node.addEventListener("click", press);
      return node;
    }

    choice(label, entries, change) {
      const holder = html(this.controls, "label", { className: "moving-choice" });
      html(holder, "span", {}, label);
      const select = html(holder, "select");
      entries.forEach((entry, i) => html(select, "option", { value: String(i) }, entry));
      select.addEventListener("change", () => change(Number(select.value)));
      return select;
    }
  }

  // Linear axes: data coordinates to drawing coordinates.
  function axes({ x: [x0, x1], y: [y0, y1], left = 44, right = 510, top = 12, bottom = 262 }) {
    return {
      left, right, top, bottom,
      x: (v) => left + ((v - x0) / (x1 - x0)) * (right - left),
      y: (v) => bottom - ((v - y0) / (y1 - y0)) * (bottom - top),
    };
  }

  function drawAxes(svg, at, xs, ys, xlabel, ylabel) {
    const group = shape(svg, "g", { class: "axis" });
    shape(group, "path", { d: `M${at.left},${at.top}V${at.bottom}H${at.right}`, fill: "none" });
    for (const v of xs) shape(group, "text", { x: at.x(v), y: at.bottom + 16, "text-anchor": "middle" }, v);
    for (const v of ys) shape(group, "text", { x: at.left - 6, y: at.y(v) + 4, "text-anchor": "end" }, v);
    shape(group, "text", { x: (at.left + at.right) / 2, y: at.bottom + 34, "text-anchor": "middle" }, xlabel);
    shape(group, "text", { x: at.left + 6, y: at.top + 4 }, ylabel);
  }

  function curve(at, f, from, to, pieces = 120) {
    const points = Array.from({ length: pieces + 1 }, (_, i) => from + ((to - from) * i) / pieces);
    return "M" + points.map((v) => `${at.x(v).toFixed(1)},${at.y(f(v)).toFixed(1)}`).join("L");
  }

  function load(file) {
    return new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: here + file, onload: done });
      script.onerror = () => failed(new Error(`${file} could not be loaded`));
      document.head.append(script);
    });
  }

  window.moving = { Frame, axes, curve, drawAxes, shape, figures: {} };

  document.addEventListener("DOMContentLoaded", async () => {
    const found = names.flatMap((name) => [...document.querySelectorAll(`figure.moving-${name}`)].map((f) => [name, f]));
    if (!found.length) return;
    await load("data.js");
    for (const [name, figure] of found) {
      await load(`${name}.js`);
      window.moving.figures[name](figure, window.movingData[name]);
      figure.dataset.ready = "true";
    }
  });
})();

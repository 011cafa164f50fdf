// Algorithm 1 on the hand-sized example, one block at a time.
window.moving.figures["algorithm-steps"] = (figure, data) => {
  const { Frame, axes, drawAxes, shape } = window.moving;
  const words = "The unit square of the two decisions, shaded by cost, with its four corners; a square mark for x, a round one for u, and a line between them.";
  const frame = new Frame(figure, "algorithm-steps", words, { width: 400, height: 370 });
  const at = axes({ x: [-0.12, 1.12], y: [-0.12, 1.12], left: 44, right: 370, top: 10, bottom: 325 });
  const low = Math.min(...data.heights), high = Math.max(...data.heights);
  const step = 1 / (data.side - 1), map = shape(frame.drawing, "g", { class: "map" });
  data.heights.forEach((height, i) => {
    const a = (i % data.side) * step, b = Math.floor(i / data.side) * step;
    shape(map, "rect", {
      x: at.x(a - step / 2), y: at.y(b + step / 2), width: at.x(step) - at.x(0), height: at.y(0) - at.y(step),
      "fill-opacity": (0.55 * (high - height) / (high - low)).toFixed(3),
    });
  });
  drawAxes(frame.drawing, at, [0, 1], [0, 1], "first machine", "second machine");
  for (const [a, b, cost] of data.corners) {
    shape(frame.drawing, "circle", { cx: at.x(a), cy: at.y(b), r: 3, class: "dot" });
    shape(frame.drawing, "text", { x: at.x(a) + (a ? -10 : 10), y: at.y(b) + (b ? 20 : -12), class: "name", "text-anchor": a ? "end" : "start" }, `cost ${cost}`);
  }
  const tie = shape(frame.drawing, "path", { class: "line dashed" });
  const square = shape(frame.drawing, "rect", { width: 18, height: 18, class: "ring second" });
  const dot = shape(frame.drawing, "circle", { r: 6, class: "dot first" });
  const xName = shape(frame.drawing, "text", { class: "name second" }, "x");
  const uName = shape(frame.drawing, "text", { class: "name first" }, "u");

  const pair = (v) => `(${v.map((e) => e.toFixed(2).replace(/\.?0+$/, "")).join(", ")})`;
  let run = data.runs[2], now = 0;
  // State 0 is the start; then, for every iteration, after the MIP block, after the NN block, after the prices.
  function state() {
    const k = Math.floor((now - 1) / 3), phase = (now - 1) % 3, zero = [0, 0];
    if (now === 0) return { x: null, u: zero, text: "Start: u = (0, 0), λ = (0, 0). Press “next”." };
    const before = k ? { u: run.u[k - 1], lam: run.lam[k - 1] } : { u: zero, lam: zero };
    const best = Math.min(...run.total.slice(0, k + 1));
    const head = `Iteration ${k + 1}, `;
    if (phase === 0) return { x: run.x[k], u: before.u, text: `${head}MIP block: x = ${pair(run.x[k])}, cost ${run.total[k]}; best so far ${best}.` };
    if (phase === 1) return { x: run.x[k], u: run.u[k], text: `${head}NN block: u = ${pair(run.u[k])}.` };
    const last = k === run.x.length - 1 && run.status === "converged" ? " The copies agree: converged." : "";
    return { x: run.x[k], u: run.u[k], text: `${head}multiplier: λ = ${pair(run.lam[k])}, moved by ρ(u − x).${last}` };
  }
  function draw() {
    const { x, u, text } = state();
    dot.setAttribute("cx", at.x(u[0])); dot.setAttribute("cy", at.y(u[1]));
    uName.setAttribute("x", at.x(u[0]) + 9); uName.setAttribute("y", at.y(u[1]) + 18);
    for (const node of [square, xName, tie]) node.setAttribute("visibility", x ? "visible" : "hidden");
    if (x) {
      square.setAttribute("x", at.x(x[0]) - 9); square.setAttribute("y", at.y(x[1]) - 9);
      xName.setAttribute("x", at.x(x[0]) - 20); xName.setAttribute("y", at.y(x[1]) + 5);
      tie.setAttribute("d", `M${at.x(x[0])},${at.y(x[1])}L${at.x(u[0])},${at.y(u[1])}`);
    }
    place.input.max = 3 * run.x.length;
    place.set(now);
    back.disabled = now === 0;
    next.disabled = now === 3 * run.x.length;
    frame.say(`ρ = ${run.rho}. ${text}`);
  }
  const choice = frame.choice("penalty ρ", data.runs.map((r) => String(r.rho)), (i) => { run = data.runs[i]; now = 0; draw(); });
  choice.value = "2";
  const back = frame.button("back", () => { now -= 1; draw(); });
  const next = frame.button("next", () => { now += 1; draw(); });
  const place = frame.slider("position", { min: 0, max: 1, step: 1, value: 0, show: (v) => String(v) }, (v) => { now = v; draw(); });
  draw();
};

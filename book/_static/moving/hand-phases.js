// Algorithm 1 on the hand-sized example: what a run repeats for ever, for every penalty.
window.moving.figures["hand-phases"] = (figure, data) => {
  const { Frame, axes, drawAxes, shape } = window.moving;
  const { runs, borders, optimum } = data;
  const words = "The costs of the decisions that a run repeats for ever, over the penalty, in three bands: two costs where the run cycles, the optimal cost alone in the middle, and the cost of the start where it is frozen.";
  const frame = new Frame(figure, "hand-phases", words);
  const last = runs[runs.length - 1].rho + 0.25;
  const at = axes({ x: [0, last], y: [0.2, 2.6] });
  const edges = [0, ...borders, last];
  ["cycle", "optimum", "frozen"].forEach((kind, i) => {
    if (i === 1) shape(frame.drawing, "rect", { x: at.x(edges[1]), y: at.top, width: at.x(edges[2]) - at.x(edges[1]), height: at.bottom - at.top, class: "region" });
    shape(frame.drawing, "text", { x: at.x((edges[i] + edges[i + 1]) / 2), y: at.top + 16, class: "name", "text-anchor": "middle" }, kind);
  });
  for (const edge of borders) shape(frame.drawing, "path", { d: `M${at.x(edge)},${at.top}V${at.bottom}`, class: "line dotted" });
  shape(frame.drawing, "path", { d: `M${at.left},${at.y(optimum)}H${at.right}`, class: "line third dashed" });
  drawAxes(frame.drawing, at, [0, 2, 4, 6, 8, 10, 12], [0.5, 1, 1.5, 2], "penalty ρ", "");
  for (const run of runs) for (const cost of new Set(run.costs))
    shape(frame.drawing, "circle", { cx: at.x(run.rho), cy: at.y(cost), r: 2.6, class: "dot first" });
  const rings = [0, 1, 2].map(() => shape(frame.drawing, "circle", { r: 8, class: "ring second" }));

  function draw(i) {
    const run = runs[i], costs = [...new Set(run.costs)];
    rings.forEach((ring, j) => {
      ring.setAttribute("visibility", j < costs.length ? "visible" : "hidden");
      ring.setAttribute("cx", at.x(run.rho));
      ring.setAttribute("cy", at.y(costs[Math.min(j, costs.length - 1)]));
    });
    const states = run.x.map((x, j) => `(${x.join(", ")}) at cost ${run.costs[j]}`);
    const fate = {
      cycle: `the run comes to repeat ${states.join(", ")}, for ever; it visits the optimum and leaves it again.`,
      optimum: `the run comes to rest at ${states[0]}, the optimum.`,
      frozen: `the run never leaves ${states[0]}, where it began; the optimum costs ${optimum}.`,
    }[run.kind];
    frame.say(`ρ = ${run.rho}: ${fate}`);
  }
  frame.slider("penalty ρ", { min: 0, max: runs.length - 1, step: 1, value: 10, show: (i) => String(runs[i].rho) }, draw);
  draw(10);
};

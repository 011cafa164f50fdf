// One ReLU between its bounds, its Big-M relaxation when the bounds are loose, and what that does to a whole model.
window.moving.figures["relu-envelope"] = (figure, data) => {
  const { Frame, axes, drawAxes, shape } = window.moving;
  const { low, high, bounds } = data;
  const words = "The ReLU over its true range, and above it the region that the relaxation allows, bounded by a straight upper edge that rises as the bounds get looser.";
  const frame = new Frame(figure, "relu-envelope", words);
  const at = axes({ x: [-1.2, 2.2], y: [-0.3, 7.2] });
  drawAxes(frame.drawing, at, [-1, 0, 1, 2], [0, 2, 4, 6], "a, the neuron's input", "z");
  const region = shape(frame.drawing, "path", { class: "region" });
  const tight = shape(frame.drawing, "path", { class: "line third dashed" });
  const edge = shape(frame.drawing, "path", { class: "line first" });
  shape(frame.drawing, "path", { d: `M${at.x(low)},${at.y(0)}H${at.x(0)}L${at.x(high)},${at.y(high)}`, class: "line" });
  shape(frame.drawing, "text", { x: at.x(1.45), y: at.y(1) + 10, class: "name" }, "ReLU");
  const name = shape(frame.drawing, "text", { class: "name first", "text-anchor": "end" }, "upper edge");

  const top = (a, t) => (t * high * (a - t * low)) / (t * (high - low));
  const area = (t) => ((top(low, t) + top(high, t)) / 2) * (high - low) - (high * high) / 2;
  tight.setAttribute("d", `M${at.x(low)},${at.y(top(low, 1))}L${at.x(high)},${at.y(top(high, 1))}`);
  function draw(i) {
    const [t, bound] = bounds[i];
    const ends = [[low, top(low, t)], [high, top(high, t)]];
    edge.setAttribute("d", "M" + ends.map(([a, z]) => `${at.x(a)},${at.y(z)}`).join("L"));
    region.setAttribute("d", `M${at.x(low)},${at.y(ends[0][1])}L${at.x(high)},${at.y(ends[1][1])}V${at.y(high)}L${at.x(0)},${at.y(0)}H${at.x(low)}Z`);
    name.setAttribute("x", at.x(high)); name.setAttribute("y", at.y(ends[1][1]) - 8);
    frame.say(`Bounds ${t} times the true ones, M⁻ = ${(t * low).toFixed(2)} and M⁺ = ${(t * high).toFixed(2)}: the relaxation has ${(area(t) / area(1)).toFixed(1)} times the area. ` +
      `The hand-sized model's relaxation then proves ${bound.toFixed(2)}; the optimum is ${data.optimum}.`);
  }
  frame.slider("looseness of the bounds", { min: 0, max: bounds.length - 1, step: 1, value: 0, show: (v) => `× ${bounds[v][0]}` }, draw);
  draw(0);
};

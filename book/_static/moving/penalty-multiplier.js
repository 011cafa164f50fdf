// min (x - 2)^2 / 2 subject to x = 1/2: the augmented Lagrangian for any penalty and multiplier.
window.moving.figures["penalty-multiplier"] = (figure, data) => {
  const { Frame, axes, curve, drawAxes, shape } = window.moving;
  const { target, wanted } = data;
  const words = "Curves over x: the objective, a parabola with its lowest point at 2, and the augmented Lagrangian with its lowest point marked; a vertical line at the wanted x of one half.";
  const frame = new Frame(figure, "penalty-multiplier", words);
  const at = axes({ x: [-1, 4], y: [-1, 6] });
  const clip = shape(shape(frame.drawing, "defs"), "clipPath", { id: "moving-penalty-clip" });
  shape(clip, "rect", { x: at.left, y: at.top, width: at.right - at.left, height: at.bottom - at.top });
  drawAxes(frame.drawing, at, [-1, 0, 1, 2, 3, 4], [0, 2, 4, 6], "x", "");
  const inside = shape(frame.drawing, "g", { "clip-path": "url(#moving-penalty-clip)" });
  const objective = (x) => (x - target) ** 2 / 2;
  shape(inside, "path", { d: curve(at, objective, -1, 4), class: "line dotted" });
  shape(inside, "path", { d: `M${at.x(wanted)},${at.top}V${at.bottom}`, class: "line second dashed" });
  const line = shape(inside, "path", { class: "line first" });
  const dot = shape(inside, "circle", { r: 6, class: "dot first" });
  shape(frame.drawing, "text", { x: at.x(wanted) + 6, y: at.top + 12, class: "name second" }, "x = ½");
  shape(frame.drawing, "text", { x: at.x(3.9), y: at.y(0.3), class: "name", "text-anchor": "end" }, "objective");
  const name = shape(frame.drawing, "text", { class: "name first", "text-anchor": "middle" }, "lowest point of Lρ");

  let rho = 1, lam = 0, steps = 0;
  const best = () => (target - lam + rho * wanted) / (1 + rho);
  const lagrangian = (x) => objective(x) + lam * (x - wanted) + (rho / 2) * (x - wanted) ** 2;
  function draw() {
    const x = best();
    line.setAttribute("d", curve(at, lagrangian, -1, 4));
    dot.setAttribute("cx", at.x(x));
    dot.setAttribute("cy", at.y(lagrangian(x)));
    name.setAttribute("x", at.x(x));
    name.setAttribute("y", at.y(lagrangian(x)) + 22);
    const miss = x - wanted;
    frame.say(`${steps ? `After ${steps} multiplier step${steps > 1 ? "s" : ""}: ` : ""}ρ = ${rho.toFixed(1)}, λ = ${lam.toFixed(3)}; the lowest point is x = ${x.toFixed(4)}, ` +
      (Math.abs(miss) < 5e-4 ? "on the constraint." : `off the constraint by ${Math.abs(miss).toFixed(4)}.`));
  }
  const penalty = frame.slider("penalty ρ", { min: 0, max: 10, step: 0.1, value: rho, show: (v) => v.toFixed(1) }, (v) => { rho = v; steps = 0; draw(); });
  const price = frame.slider("multiplier λ", { min: -1, max: 3, step: 0.05, value: lam }, (v) => { lam = v; steps = 0; draw(); });
  frame.button("multiplier step", () => { lam += rho * (best() - wanted); steps += 1; price.set(lam); draw(); });
  frame.button("start again", () => { rho = 1; lam = 0; steps = 0; penalty.set(rho); price.set(lam); draw(); });
  draw();
};

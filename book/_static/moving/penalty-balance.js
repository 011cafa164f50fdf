// What a move of u earns in the u-step and what it costs in the multiplier step, for curvature between -m and l.
window.moving.figures["penalty-balance"] = (figure, data) => {
  const { Frame, axes, curve, drawAxes, shape } = window.moving;
  const words = "Two curves over the penalty divided by l: a rising line for what the u-step earns, a falling curve for what the multiplier step costs. They cross at the threshold, the larger of l and 2m.";
  const frame = new Frame(figure, "penalty-balance", words);
  const at = axes({ x: [0, data.highest], y: [0, 2.5] });
  const clip = shape(shape(frame.drawing, "defs"), "clipPath", { id: "moving-balance-clip" });
  shape(clip, "rect", { x: at.left, y: at.top, width: at.right - at.left, height: at.bottom - at.top });
  drawAxes(frame.drawing, at, [0, 1, 2, 3, 4], [0, 1, 2], "ρ/ℓ", "in units of ℓ‖Δ‖²");
  const inside = shape(frame.drawing, "g", { "clip-path": "url(#moving-balance-clip)" });
  const region = shape(inside, "path", { class: "region" });
  const wall = shape(inside, "path", { class: "line dotted" });
  const earns = shape(inside, "path", { class: "line first" });
  const costs = shape(inside, "path", { class: "line second dashed" });
  const earned = shape(inside, "circle", { r: 6, class: "dot first" });
  const paid = shape(inside, "circle", { r: 6, class: "dot second" });
  const gain = shape(frame.drawing, "text", { x: at.x(3), class: "name first", "text-anchor": "end" }, "the u-step earns");
  const price = shape(frame.drawing, "text", { x: at.x(3.95), class: "name second", "text-anchor": "end" }, "the multiplier step costs");
  const name = shape(frame.drawing, "text", { class: "name" }, "threshold");

  let m = 0, ratio = 1.5;
  const earn = (bend, r) => (r + bend) / 2;
  const cost = (bend, r) => (bend * bend) / r;
  function draw() {
    const threshold = Math.max(1, 2 * m), bend = m > 0.5 ? -m : 1;
    const from = Math.max(0.05, -bend);
    const up = (r) => earn(bend, r), down = (r) => cost(bend, r);
    earns.setAttribute("d", curve(at, up, from, data.highest));
    costs.setAttribute("d", curve(at, down, from, data.highest));
    const top = curve(at, up, threshold, data.highest);
    const back = Array.from({ length: 61 }, (_, i) => data.highest + ((threshold - data.highest) * i) / 60);
    region.setAttribute("d", top + "L" + back.map((r) => `${at.x(r).toFixed(1)},${at.y(down(r)).toFixed(1)}`).join("L") + "Z");
    wall.setAttribute("d", `M${at.x(threshold)},${at.top}V${at.bottom}`);
    gain.setAttribute("y", at.y(up(3)) - 8);
    price.setAttribute("y", at.y(down(3)) + (bend === 1 ? 18 : -10));
    name.setAttribute("x", at.x(threshold) + 6);
    name.setAttribute("y", at.top + 30);
    for (const [dot, f] of [[earned, up], [paid, down]]) {
      dot.setAttribute("cx", at.x(ratio));
      dot.setAttribute("cy", at.y(f(ratio)));
      dot.setAttribute("visibility", ratio > from ? "visible" : "hidden");
    }
    const head = `m = ${m.toFixed(2)} ℓ, ρ = ${ratio.toFixed(2)} ℓ; threshold ${threshold.toFixed(2)} ℓ. `;
    if (ratio <= m) { frame.say(`${head}The u-step need not have a minimum: nothing is promised.`); return; }
    const ends = [["+ℓ", 1], [`-${m.toFixed(2)} ℓ`, -m]].slice(0, m > 0 ? 2 : 1);
    const told = ends.map(([word, t]) => `where g bends by ${word.replace("-", "−")} a move earns ${earn(t, ratio).toFixed(3)} and costs ${cost(t, ratio).toFixed(3)}`);
    const least = Math.min(earn(1, ratio) - cost(1, ratio), earn(-m, ratio) - cost(-m, ratio));
    const verdict = least > 1e-9 ? `the merit falls by at least ${least.toFixed(3)}` : least < -1e-9 ? `the merit may rise, by ${(-least).toFixed(3)}` : "the merit may stand still";
    frame.say(`${head}${told.join("; ").replace(/^w/, "W")}; ${verdict}.`);
  }
  frame.slider("downward bending m/ℓ", { min: 0, max: 1, step: 0.05, value: m }, (v) => { m = v; draw(); });
  frame.slider("penalty ρ/ℓ", { min: 0.1, max: data.highest, step: 0.05, value: ratio }, (v) => { ratio = v; draw(); });
  draw();
};

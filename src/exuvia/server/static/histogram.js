// What ANALYZE found of a column or an index: a bar a bucket, as wide as any other, high as its rows;
// then the commonest values. Bounds are values of rows, so who sees them has logged in.

import { draw, make } from "/elements.js";

const WIDTH = 600, HEIGHT = 120;
const count = new Intl.NumberFormat("en");

/** A figure of {buckets: [[rows, repeats, lower, upper]], top: [[rows, value]]}. */
export function histogram(name, found) {
  const parts = [make("figcaption", "", name)];
  const { buckets, top } = found;
  if (buckets.length) {
    const most = Math.max(1, ...buckets.map((each) => each[0]));
    const wide = WIDTH / buckets.length;
    const said = `${buckets.length} buckets from ${buckets[0][2]} to ${buckets.at(-1)[3]}, at most ${count.format(most)} rows each`;
    const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    picture.setAttribute("aria-label", said);
    buckets.forEach(([rows, , lower, upper], n) => {
      const high = Math.max(1, (rows / most) * HEIGHT);
      const title = draw("title");
      title.textContent = `${lower} to ${upper}: ${count.format(rows)} rows`;
      picture.append(draw("rect", {
        x: n * wide, y: HEIGHT - high, width: Math.max(0.5, wide - (wide > 4 ? 1 : 0)), height: high,
      }, title));
    });
    parts.push(picture, make("div", "ends",
      make("span", "", buckets[0][2]), make("span", "", `${count.format(most)} rows max`),
      make("span", "", buckets.at(-1)[3])));
  }
  if (top.length) {
    const most = top[0][0];
    const list = make("ol", "top");
    for (const [rows, value] of top) {
      const bar = make("i");
      bar.style.width = `${((rows / most) * 100).toFixed(1)}%`;
      list.append(make("li", "", make("code", "", value || "(empty)"),
        make("div", "bar", bar), make("span", "number", count.format(rows))));
    }
    parts.push(make("p", "soft", "Most common values"), list);
  }
  if (parts.length === 1) parts.push(make("p", "soft", "All values are NULL."));
  return make("figure", "histogram", ...parts);
}
